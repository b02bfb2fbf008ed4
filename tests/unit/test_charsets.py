"""Texts of files, pages and mails are read in whatever charset they are written, named or not."""

import pytest

from channels.charsets import decode_text, find_codec

TEXTS = {
    "cp1251": "Имя;Город;Сумма\nИванов Пётр;Москва;1200\n",
    "koi8-r": "Привет! Встреча переносится на четверг, в десять утра.",
    "gb18030": "姓名,城市,金额\n王伟,北京,1200\n备注：周五之前付款\n",
    "big5": "姓名,城市,金額\n王偉,台北,1200\n備註：星期五之前付款\n",
    "cp932": "氏名,都市,金額\n山田太郎,東京,1200\n備考：金曜日までに支払うこと\n",
    "euc_jp": "会議は木曜日の午前十時に変更になりました。",
    "cp949": "이름,도시,금액\n김철수,서울,1200\n",
    "cp1252": "Name;Stadt;Betrag\nMüller Jörg;Köln;1200 €\nGroß Käthe;Nürnberg;450\n",
    "cp1250": "Nazwisko;Miasto;Kwota\nŻółkiewski;Łódź;1200\nGąsior;Kraków;450\n",
    "cp1253": "Όνομα;Πόλη;Ποσό\nΓιώργος;Αθήνα;1200\n",
    "cp1254": "Ad;Şehir;Tutar\nÇağrı Öztürk;İstanbul;1200\nAyşe Işık;Eskişehir;450\n",
    "cp1255": "שם;עיר;סכום\nדוד כהן;תל אביב;1200\n",
    "cp1256": "الاسم;المدينة;المبلغ\nمحمد علي;القاهرة;1200\n",
    "cp874": "ชื่อ,เมือง,จำนวน\nสมชาย,กรุงเทพ,1200\n",
    "utf-16": "Größe;Menge\n",
    "utf-8-sig": "Größe;Menge\n",
}
FEW = ("na\u00efve", "20 £", "80 °C", "it’s", "café", "“hi”", "5 €")


@pytest.mark.parametrize("codec", TEXTS)
def test_a_text_without_the_name_of_its_charset_is_read_by_its_letters(codec: str) -> None:
    text, found = decode_text(TEXTS[codec].encode(codec))
    assert text == TEXTS[codec]
    assert text.encode(found) == TEXTS[codec].encode(codec)


@pytest.mark.parametrize("codec", ["cp1251", "gb18030", "cp932", "cp1250"])
def test_letters_far_behind_the_beginning_count_too(codec: str) -> None:
    text = "id,name\n" * 30_000 + TEXTS[codec] + "id,name\n" * 30_000
    assert decode_text(text.encode(codec))[0] == text


@pytest.mark.parametrize("text", FEW)
def test_a_sign_or_two_in_an_english_text_are_western(text: str) -> None:
    assert decode_text(f"The price list: {text}".encode("cp1252"))[0] == f"The price list: {text}"


def test_utf_8_with_a_broken_sign_stays_utf_8() -> None:
    raw = TEXTS["cp1251"].encode()
    for broken in (raw[:-2], raw[1:], raw + b"\xff", raw.replace(b"\n", b"\xe9\n")):
        text, codec = decode_text(broken)
        assert codec == "utf-8" and "Иванов Пётр;Москва" in text


@pytest.mark.parametrize(
    "text",
    [
        *("Größe: 5 µm", "ÄÖÜ", "élève", "½ cup", "café — naïve", "José Ñandú <a@b.de>"),
        *("§ 5 Größe: 5 µm", "BMW;Größe;für\n", "Ort;Name\nhello;x\nMZ;Müller\n", "àéîõü"),
        "\x1b[31mFehler\x1b[0m für Müller",
    ],
)
def test_a_short_western_text_is_taken_for_no_other(text: str) -> None:
    assert decode_text(text.encode("cp1252"))[0] == text


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("cp932", "明日のAPI会議は中止です。モデルABC-1234のカードNOです"),
        ("gb18030", "请用iPhone15打开App，谢谢"),
        ("cp1251", "Купить iPhone и USB-кабель для MacBook"),
        ("cp1251", "\x1b[31mОшибка: файл не найден\x1b[0m"),
        ("utf-32", "Größe"),
    ],
)
def test_latin_words_and_colours_in_another_script_are_read(codec: str, text: str) -> None:
    assert decode_text(text.encode(codec))[0] == text


@pytest.mark.parametrize(
    "raw", [b"caf\xc3\xa9 \xff", "😀 done".encode()[1:], "ok 😀".encode()[:-1], "日本語 a".encode()[1:]]
)
def test_a_cut_or_broken_letter_leaves_utf_8(raw: bytes) -> None:
    assert decode_text(raw)[0] == decode_text(raw, "utf-8")[0] == raw.decode("utf-8", "replace")


@pytest.mark.parametrize(
    "more", [b"\xff\xfehi\n", b"# coding: utf_16_le \xe9.\n", b"+AGE- \xe9\n", b"\x1b$B0! \xe9\n", b"~{VP~} \xe9"]
)
def test_no_line_makes_the_others_unreadable(more: bytes) -> None:
    """What is ASCII stays as it is, so that secrets and addresses in it are seen."""
    text, _ = decode_text(b"TOKEN=sk-live-123\n" + more + b"\nsee http://example.org/\n")
    assert "TOKEN=sk-live-123\n" in text and "\nsee http://example.org/\n" in text
    page = b"<meta charset='utf-16le'>TOKEN=sk-live-123 \xe9"
    assert "TOKEN=sk-live-123" in decode_text(page, is_html=True)[0]


def test_where_a_secret_may_be_no_ascii_letter_is_a_part_of_another() -> None:
    raw = "これは日本語の文章です。\nTOKEN=".encode("cp932") + b"\x81sk-live-123"
    assert "sk-live-123" in decode_text(raw, keeps_ascii=True)[0]
    for codec in ("cp1251", "koi8-r", "cp1253"):
        assert decode_text(TEXTS[codec].encode(codec), keeps_ascii=True)[0] == TEXTS[codec]


def test_what_is_no_text_has_no_codec() -> None:
    for raw in (bytes(range(256)) * 9, b"\x01\x02\xff\xfe\x03" * 500, b"\xff\xd8\xff\xe0\x10JFIF\x01"):
        assert decode_text(raw)[1] == ""
    assert decode_text(b"") == ("", "utf-8")


def test_a_named_charset_counts_before_a_guess() -> None:
    raw = TEXTS["cp1251"].encode("cp1251")
    assert decode_text(raw, "koi8-r")[1] == "koi8-r"
    assert decode_text(raw, "utf-8")[0] == decode_text(raw, "klingon")[0] == TEXTS["cp1251"]
    page = b"<meta charset=windows-1251><p>" + raw
    assert decode_text(page, is_html=True)[0].endswith(TEXTS["cp1251"])
    assert decode_text(TEXTS["gb18030"].encode("gbk"), "gb2312")[0] == TEXTS["gb18030"]


@pytest.mark.parametrize("name", ["hex", "punycode", "zlib", "klingon", "undefined", ""])
def test_what_names_no_charset_of_texts_is_no_codec(name: str) -> None:
    assert find_codec(name) == ""
