"""What was said is found again by its words in other languages, and in other scripts, too (A4)."""

from pathlib import Path

from tests.bench.tongues import count_found, read_chats

LEAST = {"German": 8, "French": 9, "Spanish": 9, "Russian": 8, "Japanese": 9, "Chinese": 8}


async def test_most_questions_of_each_language_have_their_answer_among_the_first_ten(
    tmp_path: Path,
) -> None:
    sizes = {chat.language: (len(chat.said), len(chat.asked)) for chat in read_chats()}
    assert sizes == dict.fromkeys(LEAST, (50, 10))
    found = await count_found(tmp_path / "memory")
    assert [one for one, least in LEAST.items() if found[one] < least] == [], found
