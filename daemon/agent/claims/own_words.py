"""What the assistant says in its own name: a reply without code, quotations, and texts written for others (F6)."""

import re

BEGINNING, END = 8000, 4000
CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
QUOTED = re.compile(
    r"`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”|„[^“”\n]*[“”]|«[^»\n]*»|(?<!\w)['‘](?=[^'’\n]* )[^'‘’\n]{6,}['’](?!\w)"
)
CITED = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
MARKUP = re.compile(r"\*\*|__|~~|(?<!\w)[*_](?=\w)|(?<=[\w.!])[*_](?!\w)")
REGARDS = (
    r"(?:[^\n]*\n){1,60}?[ \t]*(?:best|kind regards|regards|sincerely|cheers|yours|thanks|viele|liebe|beste|mit freundlichen"
    r"|cordialement|saludos)"
)
LETTER = re.compile(
    r"^[ \t]*(?:subject|betreff|objet|asunto):.*?(?=^[ \t]*(?:---+|\*\*\*+)[ \t]*$|\Z)"
    r"|^[ \t]*(?:dear|hi|hello|hey|liebe[rs]?|hallo|sehr geehrte|bonjour|ch[eè]re?|hola|querid[oa]"
    r"|estimad[oa])\b[^\n]{0,40},?[ \t]*$"
    + REGARDS + r"[^\n]*(?:\n[^\n]+)?",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)  # fmt: skip
SAMPLE = re.compile(
    r"(^[^\n]*\b(?:translat\w+|drafts?|drafted|example|template|version|wording|rewritten|rewrite|corrected"
    r"|here(?:['’]s| is) (?:the|your) updated"
    r"|paragraph|essay|letter|caption|bio|article|speech|suggest\w*|you (?:can|could|might) (?:say|write|send|use|reply"
    r"|answer|paste)"
    r"|how about|something like|poem|story|haiku|dialogue|checklist|übersetz\w+|entwurf|vorschlag|beispiel|traduc\w+"
    r"|brouillon|exemple"
    r"|ejemplo|borrador)\b[^\n]*(?::|here it is\.?)[ \t]*\n).*?(?=^[ \t]*(?:---+|\*\*\*+)[ \t]*$|\Z)",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)


def own_words(reply: str) -> str:
    """The reply without code, quotations, letters and samples: what the assistant says in its own name."""
    text = reply if len(reply) <= BEGINNING + END else f"{reply[:BEGINNING]}\n{reply[-END:]}"
    text = CODE.sub("\n", text)
    text = CITED.sub("", text)
    text = LETTER.sub("\n", text)
    text = SAMPLE.sub(r"\1", text)
    return MARKUP.sub("", QUOTED.sub(" item ", text))
