"""Did the owner order this deed? A strict reading of their words, then one question to a model that
sees nothing of a stranger's (trust.md, consent).

Whose value it is (provenance) is another question: "never write to bob@example.org" names bob.
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise

from daemon.core import value
from daemon.core.disguise.find import normalize
from daemon.core.trust import Effect
from daemon.tools.policy.provenance import NamedValue, iter_values, text_holds
from daemon.tools.policy.stemming import word_set
from daemon.tools.policy.text_values import is_mail, parse_number, parse_web_address

PURPOSE = "consent"
MAX_WORDS_CHARS = 6000
SYSTEM = """\
You decide whether a person ordered one deed. Below are the person's own words, without what \
they pasted or quoted, and the deed that a program wants to do for them.
Answer yes only if the person's own words order exactly this kind of deed with these values. \
A mention, a question, a report, a condition that is not known to hold, or a negation is no order. \
To read, open or sum up something is no order to send, post or write there.
Answer with one word: yes or no."""

# English, German, French, Spanish, Italian, Portuguese, Dutch, Polish; without accents.
SEND = word_set("""
    send mail email post forward reply respond answer submit upload publish share tell notify
    message inform pay transfer book invite order write push deliver give pass report announce ping
    text register subscribe hand schedule create add reserve update set make let drop
    schick schicke schicken sende senden maile mailen poste posten leite weiterleiten antworte
    antworten veroffentliche teile teilen lade hochladen uberweise uberweisen zahle zahlen bezahle
    buche buchen einladen sag sage informiere benachrichtige melde schreib schreibe schreiben gib
    envoie envoyer envoyez poster publie publier publiez transfere transferer reponds repondre
    partage partager soumets soumettre televerse paie payer paye vire virer reserver inviter dis
    ecris ecrire previens informe notifie transmets transmettre
    envia enviar envie enviale envialo manda mandar mande mandale mandalo publica publicar reenvia
    reenviar responde responder comparte compartir sube subir paga pagar transfiere transferir
    reserva reservar invita invitar dile avisa avisar informa notifica escribe escribir escribele
    invia inviare inviala invialo mandare spedisci spedire pubblica pubblicare inoltra inoltrare
    rispondi rispondere condividi condividere carica caricare pagare trasferisci prenota prenotare
    invitare scrivi scrivere avvisa
    publique encaminha encaminhe encaminhar responda partilha compartilhe pague transfira reserve
    convida convide escreve escreva escrever avise
    stuur sturen verstuur versturen verzend plaats plaatsen deel delen antwoord betaal betalen boek
    boeken nodig schrijf schrijven meld
    wyslij wyslac przeslij przeslac opublikuj opublikowac odpowiedz udostepnij zaplac zaplacic
    przelej zarezerwuj zapros napisz powiadom
""")
WRITE = SEND | word_set("""
    save change edit append put store rename fix replace note generate insert record log fill draft
    rewrite correct complete merge copy convert format refactor implement move turn
    speichere speichern erstelle erstellen andere andern aktualisiere aktualisieren fuge hinzufugen
    erganze erganzen lege leg anlegen notiere korrigiere benenne ersetze setze kopiere mach trage
    enregistre enregistrer sauvegarde sauvegarder cree creer modifie modifier mets mettre ajoute
    ajouter noter corrige corriger renomme remplace copie
    guarda guardar crea crear actualiza actualizar cambia cambiar anade anadir agrega agregar anota
    renombra reemplaza copia pon
    salva salvare creare aggiorna aggiornare modifica modificare aggiungi aggiungere annota
    correggi rinomina sostituisci metti
    guarde salve salvar cria crie criar atualiza atualize muda adiciona adicione anote corrija
    bewaar bewaren sla opslaan maak maken werk wijzig voeg toevoegen noteer zet kopieer verbeter
    zapisz zapisac utworz utworzyc zaktualizuj zmien dodaj dodac zanotuj popraw skopiuj
""")
READ = word_set("""
    sum summarise summarize read show fetch get open look check visit see find search explain
    translate analyse analyze review download load parse describe extract collect browse view
    inspect watch count what go study examine scan list research take compare
    fass fasse lies lesen zeig zeige hol hole offne schau such suche finde erklare ubersetze prufe
    besuche nenne vergleiche resume resumer lis lire montre ouvre regarde cherche trouve explique
    traduis verifie compare resumir lee leer muestra abre mira busca encuentra explica traduce
    verifica revisa compara riassumi leggi mostra apri guarda cerca trova spiega traduci controlla
    confronta resuma leia mostre abra olha procura procure traduz vat lees toon kijk zoek vind
    vertaal controleer vergelijk podsumuj przeczytaj pokaz otworz sprawdz znajdz wyjasnij
    przetlumacz porownaj
""")
COMPARING = word_set("compare vergleiche compara confronta vergelijk porownaj")
ME = word_set("me us mir uns moi nous nos mi ci mij ons nam")
NEGATIONS = word_set("""
    not no never none nothing nobody without neither nor cannot avoid refuse stop dont doesnt cant
    wont shouldnt mustnt isnt wasnt arent nicht kein keine keinen keinem nie niemals nichts ohne ne
    pas jamais rien sans nunca jamas nada sin non mai niente senza nao nem sem niet nooit geen niets
    zonder nigdy bez zadnych imagine suppose pretend wait angenommen warte imagina supon immagina
    attends espera aspetta wacht poczekaj
""")
CONDITIONS = word_set("if unless once until falls sofern sobald wenn si zodra jesli")
TIMES = word_set("when after before quand cuando quando gdy nachdem bevor")
LEADS = word_set("""
    and then also please now next finally afterwards kindly just or und dann bitte auch danach et
    puis ensuite merci y luego e poi quindi allora depois entao en daarna dan graag oraz potem
    prosze nastepnie you du tu pouvez-vous peux-tu puedes podrias puoi potresti pode poderia je
    mozesz lets to-you
""")
WISHES = word_set("you want need like task")
COMMON_PARTS = word_set("com org net www http https mail email and the for info")
THAT = word_set("that dass daß que che dat ze")
AFTER_IF = word_set("so yes possible ja oui")
PLEASE = word_set("please bitte")
AFTER_NOUN = word_set("to of from in has was is prices about")
ENCLITICS = word_set("le la les lui leur en y o a os as lhe")
NOUNS = word_set("mail email report share text update message order book pass note change log")
INDIRECT = word_set("report book order share update set make create register schedule")
PLACED = word_set("""
    post submit upload publish push poste posten lade hochladen veroffentliche poster publier
    televerse soumets sube subir publica publicar carica caricare pubblica publique plaats opublikuj
""")
MAKERS = word_set("""
    make create add book order update set schedule reserve report register
    erstelle buche buchen reserver reserva reservar prenota prenotare crea reserve boek boeken
    zarezerwuj melde meld
""")
SENDERS = word_set("send mail email forward post message reply notify share publish tweet sms chat")
MAIL_NOUNS = word_set("""
    mail mails email emails message messages letter letters answer answers reply replies note notes
    text texts post posts nachricht nachrichten brief briefe antwort antworten lettre lettres
    reponse reponses courriel carta cartas respuesta respuestas correo correos mensaje mensajes
    lettera lettere risposta risposte messaggio messaggi mensagem mensagens resposta bericht
    berichten list odpowiedz wiadomosc
""")
SAID_TO = word_set("""
    wrote sent written said went moved addressed geschrieben geschickt gesendet schrieb schickte
    ecrit envoye escribi escrito enviado enviada mandado scritto inviato mandato escrevi enviei
    geschreven gestuurd napisalem wyslalem
""")
ASKING = word_set("can could would will please")
POLITE = word_set("""
    can could would will please kannst konntest konnen bitte wurdest peux-tu pourrais-tu pouvez-vous
    pourriez-vous puedes podrias puede puoi potresti pode poderia podes kun kan wil zou mozesz
""")
TOWARDS = word_set("""
    to at on with via into in for an auf bei nach unter in zu zum zur fur a au aux vers sur pour
    chez al en para hacia ad su per presso ao aos em no na naar aan op voor bij do na pod dla
""")
FROM = word_set("from of about like von aus uber du des depuis del da dal di do dos van uit z ze o")
INTO = word_set("into as als in nach dans sous en como come em naar do jako")
# Beside those of orders, words that tell nothing: greetings, questions, what is asked for.
ORDINARY = word_set("""
    second i my mine myself we our he she it its they them their the this these those there here
    who whom whose which how where why what's is are was were be been am does did have has had
    i'd by i'll i'm let's but so too again more less much many some any all both each every
    first last new other same only even still already yet today tomorrow yesterday soon later
    time day week up out off over down back because than good well nice great fine hi hello hey
    dear morning evening thanks thank cheers ok okay yes yeah sure right ahead should shall may
    might must know think say says mean means ask tells told matter matters help try use word
    words sentence sentences line lines page pages link links site website web article file
    files notebook lists summary point points short shorter briefly long longer detail details
    weather inbox mailbox calendar contract result results question questions user owner one two
    three important interesting english german french spanish italian portuguese dutch polish
    ich mich mein meine wir er sie es ihr der die das den dem ein eine einen einem ist sind war
    wie wer wo warum welche welcher welches noch mal mehr nur schon hier heute morgen gestern
    gut danke ja seite datei zusammenfassung kurz steht drin j'ai mes mon ma il elle le la les
    un une est sont ce cette qui quoi comment ou pourquoi quel quelle encore aussi plus bonjour
    oui texte fichier bref dit yo mis el ella lo los las una son esto esta quien donde cual otra
    mas tambien hola gracias pagina texto archivo resumen breve dice hoy manana io mio mia lui
    lei gli uno questo questa chi cosa dove quale ancora anche piu ciao grazie testo riassunto
    oggi domani eu meu minha ele ela isso este quem onde qual ainda tambem mais ola obrigado
    obrigada sim arquivo resumo diz hoje amanha ik mijn wij hij zij het een zijn waar waarom
    welke nog ook meer hallo bedankt tekst bestand samenvatting zegt vandaag moj moja ona ta ten
    jest sa kto gdzie dlaczego jaki jeszcze tez wiecej czesc dzieki tak strona plik podsumowanie
    mowi dzis jutro zusammen
""")
FIRST = word_set(
    "i i'm i've we my our ich wir mein meine je j'ai mon ma mes yo mi eu io ik mijn user"
)
SHALL = word_set("i shall will i'll we ich werde je yo eu io ik zal")
SENTENCES = re.compile(r"(?<=[.!?…])\s+|[\n;]+")
EDGES = "¿¡.,;:!?()[]{}<>\"'“”‘’«»`*_#…"
FILE_NAME = re.compile(r"(?:[\w-]+/)*[\w-]+\.[a-z]\w{0,4}")
QUOTED = re.compile(r"\"[^\"\n]*\"|“[^”\n]*”|«[^»\n]*»|„[^“\n]*“")


_TELLING_NOTHING = ORDINARY.union(
    WRITE, READ, ME, NEGATIONS, CONDITIONS, TIMES, LEADS, WISHES, THAT, PLEASE, POLITE, MAIL_NOUNS,
    SAID_TO, TOWARDS, FROM, INTO,
)  # fmt: skip


def list_telling(text: str, ordered: Sequence[str] = ()) -> Iterator[str]:
    """The words of a message that could tell somebody something: no web or mail address or file's
    name, nor any word that an order has too. "I cannot pay" tells something by everyday words, and
    so does "I have gout" beside an order to read about gout.
    """
    known = {_plain(word) for order in ordered for word in order.split()}
    for sentence in SENTENCES.split(text):
        words = [(word, plain) for word in sentence.split() if (plain := _plain(word))]
        places = {word for word, _ in words if _is_place(word.strip(EDGES))}
        new = [plain for word, plain in words if plain not in known and word not in places]
        yield from (plain for plain in new if plain not in _TELLING_NOTHING)
        says = any(plain not in ORDINARY and plain not in READ for _, plain in words)
        if (
            says
            and not places
            and "?" not in sentence
            and not FIRST.isdisjoint(
                plain for _, plain in words[: 2 if words[0][1] == "the" else 1]
            )
        ):
            yield from (plain for plain in new if plain not in SHALL)


def _is_place(word: str) -> bool:
    return leads_outside(word) or FILE_NAME.fullmatch(word) is not None


@value
class Deed:
    """One call as the owner's words must order it: `values` are those that decide where its effect
    goes, or the titles of the records that they stand in; `sources` what private content was read
    before. `to_self`: it goes to the conversation that the owner speaks in.
    """

    tool: str
    effect: Effect
    values: tuple[NamedValue, ...]
    sources: tuple[str, ...] = ()
    to_self: bool = False


def find_order(deed: Deed, texts: Sequence[str]) -> bool:
    """The words give an order for the deed, plainly: a verb of its kind stands where an order has
    it, and the addresses stand as what it leads to. False where in doubt.
    """
    return any(_orders(deed, text) for text in texts)


def _orders(deed: Deed, text: str) -> bool:
    reading = [_Sentence.of(part, deed) for part in SENTENCES.split(text) if part.strip()]
    orders = [span for one in reading if one.is_order for span in one.spans]
    writes = deed.effect is Effect.WRITE
    spans = [span for span in orders if span.kind == "deed" or (writes and span.kind == "read")]
    single = len(spans) == 1 and not any(leads_outside(word) for word in spans[0].words)
    told = [one.text for one in reading if one.is_statement] if single else []
    if writes and spans and not any(_is_file(word.strip(EDGES)) for word in spans[-1].words):
        told += [one.text for one in reading if one.is_order]  # "look at x.md and add it there"
    if not spans:
        return False

    def is_told(name: str, found: str | float) -> bool:
        return any(text_holds(one, found, name, deed.tool) for one in told)

    for name, found in deed.values:
        leads = leads_outside(found)
        if leads and str(found) not in text:
            if not any(span.names(str(found)) for span in spans):
                return False
        elif leads or (writes and _is_file(str(found))):
            if not (any(span.leads_to(name, found) for span in orders) or is_told(name, found)):
                return False
        elif (_is_file(str(found)) or parse_number(str(found)) is not None) and not (
            any(span.holds(name, found) for span in orders) or is_told(name, found)
        ):
            return False
    return (
        any(_is_address(found) for _, found in deed.values)
        or not deed.values
        or any(span.holds(name, found) for span in orders for name, found in deed.values)
        or any(is_told(name, found) for name, found in deed.values)
    )


def build_question(deed: Deed, exact: Sequence[NamedValue], orders: Sequence[str]) -> str:
    """What the model is asked: the owner's words and the bare deed with its exact values."""
    words = "\n\n".join(("The person's own words:", *orders))[-MAX_WORDS_CHARS:]
    shown = zip(exact, deed.values, strict=True)
    values = {
        f"{number}. {name}": found if found == title else f"{found} ({title})"
        for number, ((name, found), (_, title)) in enumerate(shown, 1)
    }
    after = f"\nBefore it, these private things were read: {', '.join(deed.sources)}"
    lines = json.dumps(values, ensure_ascii=False)
    does = f"The deed: {deed.tool} ({deed.effect.value}) with {lines}"
    return f"{words}\n\n{does}{after * bool(deed.sources)}\n\nDid the person order it? yes or no:"


def parse_answer(text: str | None) -> bool | None:
    """None for anything but a plain yes or no."""
    word = (text or "").strip().strip(EDGES).casefold()
    return {"yes": True, "no": False}.get(word)


@value
class _Span:
    """A verb and what follows it, up to the next verb. `kind`: "deed" for a verb of the deed's
    kind, "made" for one that makes a file, "read" for one that only reads.
    """

    words: tuple[str, ...]
    deed: Deed
    kind: str

    def names(self, address: str) -> bool:
        """One whom the owner knows by name: "Sarah Baker" for sarah.baker@example.org."""
        parts = {part for part in re.split(r"[^a-z]+", address.casefold()) if len(part) > 2}
        parts -= COMMON_PARTS
        plain = [_plain(word) for word in self.words]
        before = LEADS | TOWARDS | parts | {plain[0]}
        return any(
            word in parts and (plain[at] in before or self.words[at].endswith(","))
            for at, word in enumerate(plain[1:])
        )

    def holds(self, name: str, found: str | float) -> bool:
        """The value stands in it, as what is sent or as a name."""
        is_read = self.kind == "read"
        return not is_read and text_holds(" ".join(self.words), found, name, self.deed.tool)

    def leads_to(self, name: str, found: str | float) -> bool:
        """The value stands as what the order leads to, not as what it is about."""
        if self.kind == "made":
            return False
        before = _plain(self.words[0])
        for at, word in enumerate(self.words[1:], 1):
            last, before = before, _plain(word)
            if not text_holds(word.strip(EDGES), found, name, self.deed.tool):
                continue
            if self.kind == "read":
                return last in INTO
            if self.deed.effect is Effect.WRITE:
                return last not in FROM
            joined = last in LEADS or self.words[at - 1].endswith(",")
            beside = joined and any(map(_is_address, self.words[1:at]))
            direct = LEADS.issuperset(map(_plain, self.words[1:at]))
            direct = direct and _plain(self.words[0]) not in INDIRECT
            direct = direct and (is_mail(str(found)) or _plain(self.words[0]) in PLACED)
            towards = last in TOWARDS and not self._is_part_of_mail(at)
            if direct or self.deed.to_self or towards or beside:
                return True
            if self.words[at - 1].endswith(":"):
                return True
        return False

    def _is_part_of_mail(self, at: int) -> bool:
        """ "what I wrote to eve", and "the mail to eve" that is sent to somebody else."""
        noun = _plain(self.words[at - 2]) if at > 2 else ""
        others = (word for place, word in enumerate(self.words) if place != at)
        return noun in SAID_TO or (noun in MAIL_NOUNS and any(map(leads_outside, others)))


@value
class _Sentence:
    """`is_order`: it tells to do something; `is_statement`: it only says something."""

    text: str
    is_order: bool
    is_statement: bool
    spans: tuple[_Span, ...]

    @classmethod
    def of(cls, text: str, deed: Deed) -> "_Sentence":
        """Read one sentence."""
        words = QUOTED.sub(lambda found: f'"{found[0].strip(EDGES)}"', text).split()
        plain = [_plain(word) for word in words]
        polite = bool(POLITE & set(plain[:3]))
        head = _head(words, plain)
        negated = any(word in NEGATIONS or word.endswith("n't") for word in head)
        sends = deed.effect is not Effect.WRITE
        negated = negated or any(
            sends and word in CONDITIONS and "".join(plain[at + 1 : at + 2]) not in AFTER_IF
            for at, word in enumerate(head)
        )
        asks = any(word.strip("\"'”»)").endswith("?") for word in words)
        verbs = [at for at in range(len(words)) if _is_verb(words, plain, at, polite)]
        spans = []
        negated = negated or not TIMES.isdisjoint(plain[: verbs[0]] if verbs else ())
        wanted = WRITE if deed.effect is Effect.WRITE else SEND
        tool = re.split(r"[^a-z]+", deed.tool.casefold()) if sends else []
        for at, end in pairwise((*verbs, len(words))):
            follows = plain[at + 1] if at + 1 < len(words) else ""
            kind = ""
            made = plain[at] in MAKERS and not SENDERS.isdisjoint(tool)
            if plain[at] in wanted and not made and (deed.to_self or follows not in ME):
                kind = "deed"
            elif plain[at] in WRITE:
                kind = "made"
            elif deed.effect is Effect.WRITE and plain[at] in READ - COMPARING:
                kind = "read"
            if kind:
                begin = at + 1 if at + 1 < len(words) else _clause_start(plain, at)
                part = words[begin:end] if begin > at else words[begin:at]
                spans.append(_Span((words[at], *part), deed, kind))
        is_order = not negated and (not asks or bool((POLITE - PLEASE) & set(plain[:3])))
        return cls(text, is_order, not (verbs or negated or asks), tuple(spans))


def _is_verb(words: Sequence[str], plain: Sequence[str], at: int, polite: bool) -> bool:
    """It stands where an order has its verb."""
    if plain[at] not in WRITE and plain[at] not in READ:
        return False
    follows = plain[at + 1] if at + 1 < len(plain) else ""
    if at == 0 and plain[0] in NOUNS and (words[0].endswith(":") or follows in AFTER_NOUN):
        return False
    if at == 0 or words[at - 1].endswith((",", ":", "-", "–")) or plain[at - 1] in LEADS:
        return True
    if polite and at == len(words) - 1:
        return True  # "kannst du es an ... schicken?"
    wish = plain[at - 1] == "to" and not WISHES.isdisjoint(plain[max(at - 4, 0) : at - 1])
    return wish or (polite and plain[at - 1] in ASKING)


def _head(words: Sequence[str], plain: Sequence[str]) -> Sequence[str]:
    """Without what somebody is to be told: "mail bob@example.org that I am not at home"."""
    for at, word in enumerate(plain):
        if word in THAT and any(map(leads_outside, words[:at])):
            return plain[:at]
    return plain


def _clause_start(plain: Sequence[str], at: int) -> int:
    """Of a verb at the end: behind the last joining word before it."""
    before = [place for place in range(at) if plain[place] in LEADS]
    return before[-1] + 1 if before else 0


def _plain(word: str) -> str:
    """Lowercase, without accents and punctuation around it."""
    low = word.strip(EDGES).casefold().replace("ł", "l").replace("’", "'")
    plain = "".join(char for char in normalize("NFD", low) if not unicodedata.combining(char))
    head, _, tail = plain.partition("-")
    return head if tail in ENCLITICS else plain


def _is_address(found: object) -> bool:
    return leads_outside(found) or _is_file(str(found).strip(EDGES))


def leads_outside(found: object) -> bool:
    """A mail or web address."""
    text = str(found).strip(EDGES)
    if is_mail(text):
        return True
    address = parse_web_address(text)
    return address is not None and bool(address.scheme or not _is_file(text))


def _is_file(text: str) -> bool:
    return "/" in text or re.fullmatch(r"[\w-][\w .-]*\.[A-Za-z]\w{0,7}", text) is not None


def named_values(
    arguments: Mapping[str, object], critical: Sequence[str] | None
) -> tuple[NamedValue, ...]:
    """The plain values that decide where a call's effect goes."""
    chosen = (
        arguments if critical is None else {k: v for k, v in arguments.items() if k in critical}
    )
    return tuple(one for name, part in chosen.items() for one in iter_values(part, name))


def list_keys(tool: str, values: Sequence[NamedValue]) -> str:
    """What one deed is known by: the tool with each address that it goes to and the other values,
    however they are written; blanks between them.
    """
    plain = {(name, _normal(found)) for name, found in values}
    outside = {(name, _normal(found)) for name, found in values if leads_outside(found)}
    others = sorted(plain - outside)
    keys = ([tool, *one, others] for one in outside) if outside else [[tool, others]]
    return " ".join(sorted("deed:" + sha256(repr(key).encode()).hexdigest()[:32] for key in keys))


def _normal(found: str | float) -> str:
    """The same for all spellings of a value."""
    text = str(found).strip(EDGES + " ").casefold()
    if (number := parse_number(text)) is not None:
        return str(float(number))
    address = None if is_mail(text) else parse_web_address(text)
    return address.host + address.rest if address else text
