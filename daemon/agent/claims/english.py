"""What a claimed effect sounds like in English; the other languages are in claim_tongues.py. Data, no decisions (F6)."""

from daemon.agent.claims.words import Kind, Row, Shape, Tongue

PATH = r"(?:item\b|[\w-]*[\w/-]+\.[a-z]{1,5}\b|[\w.~-]*/[\w./-]+)"
TEXTUAL = (
    r"^(?:\s+[\w'’-]+){0,4}?\s+(?:paragraphs?|sentences?|phrases?|words?|commas?|typos?|clauses?|bullets?|bullet points?"
    r"|sections?"
    r"|headings?|duplicates?|repetitions?|mentions?|characters?|letters|adjectives|wording|tone|title|parts?|steps?|functions?"
    r"|variables?|points?|examples?|numbers?|spaces?|brackets?|whitespace|placeholders?)\b"
)
MESSAGE = (
    r"(?:e-?mails?|mails?|messages?|repl(?:y|ies)|responses?|answers?|invit(?:e|es|ation|ations)|notifications?|texts?|sms"
    r"|letters?"
    r"|newsletters?|requests?|applications?|forms?|summar(?:y|ies)|reports?|documents?|links?|invoices?|contracts?)"
)
THING = (
    r"(?:"
    + MESSAGE
    + r"|files?|folders?|director(?:y|ies)|notes?|lists?|spreadsheets?|attachments?|photos?|pictures?"
    r"|images?|backups?"
    r"|entr(?:y|ies)|records?|rows?|tables?|databases?|branch(?:es)?|commits?|changes|settings?|config(?:uration)?|accounts?"
    r"|passwords?|meetings?|appointments?|events?|calls?|reminders?|alarms?|timers?|tasks?|jobs?|tickets?|issues?|orders?"
    r"|bookings?|reservations?|flights?|trains?|hotels?|rooms?|taxis?|cabs?|cars?|seats?|payments?|bills?|rent|subscriptions?"
    r"|packages?|librar(?:y|ies)|dependenc(?:y|ies)|posts?|tweets?|comments?|articles?|scripts?|commands?|logs?|contacts?"
    r"|calendars?|data|lights?|servers?|services?|page|website|pull request|pr|drafts?|refunds?|transfers?|money|downloads?"
    r"|version|update|app|preference|fact|dinner|lunch|" + PATH + r")"
)
IT = r"(?:it|that|this|they|them|these|those|everything|all of (?:it|them|these|those))"
ADV = (
    r"(?:(?:just|now|also|already|successfully|then|gone ahead and|went ahead and|finally|since|carefully|safely|both|all"
    r"|actually"
    r"|instead|permanently|officially|indeed|fully|properly|duly|immediately|quickly)\s+)*"
)
LEAD = (
    r"(?:\W|\b(?:done|ok(?:ay)?|sure(?: thing)?|all (?:done|set|good)|great(?: news)?|got it|certainly|al(?:l )?right|perfect"
    r"|yes|yep|no(?=[,.!])"
    r"|absolutely|of course|right|no problem|no worries|finished|success|good news|there you go|you got it|as (?:you )?requested"
    r"|as (?:you )?asked|on it|update|status|result|and|so|now|then|next|finally|also|additionally|first|second|third|lastly"
    r"|today"
    r"|thanks|thank you|sorry|hi|hello|both|all|already|just|successfully|your|everything went well|additionally|afterwards)\b)*"
)
CLAUSE = (
    r"(?:.*[,;:!)(—–-]\s*|.*\b(?:and|but|so|then|because|also|now|today|finally|instead|additionally)\s+"
    r"|.*\b(?:confirm|report|note|inform you|know|happy to say|glad to say|pleased to say|say)\s+(?:that\s+)?)?"
    + LEAD
)
NOT_IN_SUBJECT = (
    r"(?!(?:should|would|could|might|may|must|will|can|not|never|no|nothing|none|neither|nor|cannot|if|when|once|that|which"
    r"|who|whose"
    r"|where|until|before|after|any|what|how|why|whether|seems?|appears?|I|you|he|she|we)\b|\w+n['’]t\b)"
)
SUBJECT = (
    r"(?P<np>(?:\b"
    + IT
    + r"|\b(?:"
    + NOT_IN_SUBJECT
    + r"[\w'’@/&+-]+(?:\.[\w]+)*\s+){0,6}?"
    + THING
    + r"(?:\s+(?:to|for"
    r"|with|from|about|on|at|in|of|and|called|named)"
    r"(?:\s+[\w'’@/:&+-]+(?:\.[\w]+)*){1,5}?|\s+" + PATH + r")?))"
)
AFTER = (
    r"\s*(?:$|[.!,;(—–-]|(?:it|them|your|the|this|that|these|those|both|all|everything|a|an|to|as|for|at|under|with"
    r"|successfully|and"
    r"|into|from|\d+|"
    + PATH
    + r"|"
    + MESSAGE
    + r" to)(?:\W|$)|(?-i:[A-Z])[a-z]+(?<!s)(?:['’]s\b|\s+(?:the|a|an|your|about"
    r"|that|and)\b))"
)
LABELLED = r"(?!.*:\s*$)(?!\s*:)"
NO_VERB = r"(?!.*\b(?:is|are|will|can|may|must|should|has|have|was|were|do|does|did|says?|contains?|shows?|would|means?)\b)"
DOES_NOT_STOP = r"(?!\s+(?:nothing|none|no\b|neither|not\b|zero\b|nobody)|\s*-\w)"

ENGLISH_ROWS = (
    Row(Kind.SCHEDULED, r"added|put|created|set(?: up)?|made|entered|placed|saved",
        r"\b(?:to|in|on|into) (?:the|your|my|our) (?:\w+ )?calendar\b|\b(?:reminders?|alarms?|timers?|(?:calendar )?events?"
        r"|appointments?|cron ?jobs?)\b"
        r"(?! (?:plan|schema|template|agenda|text|description|list|ideas?))", TEXTUAL),
    Row(Kind.SCHEDULED, r"(?:re)?scheduled"),
    Row(Kind.SCHEDULED, r"arranged", r"\b(?:meetings?|calls?|appointments?|dinner|lunch|pick-?up)\b"),
    Row(Kind.REMEMBERED, r"added|saved|stored|put|noted|kept|committed", r"\b(?:to|in|into|of|for)\s+(?:my\s+|the\s+"
        r"|long-term\s+|your\s+)*memory\b"),
    Row(Kind.REMEMBERED, r"made a (?:mental )?note|memori[sz]ed|taken note|remembered",
        r"\bmade a\b|\bmemori[sz]ed\b|taken note|(?:\bhave|['’]ve) (?:now |also |just )*remembered (?:that|it|this|your)\b"),
    Row(Kind.REMEMBERED, r"noted", r"(?:\bhave|['’]ve) (?:now |also |just )*noted (?:it|that|this|your|down)\b",
        r"^ (?:that|this) (?:the|there|in|some|one)\b|^ your (?:concern|point|question|feedback|frustration|comment)"),
    Row(Kind.CANCELLED, r"cancel+ed|unsubscribed|called off", "", r"^ (?:out|each)\b"),
    Row(Kind.CHANGED, r"deleted|removed|erased|cleared",
        r"\b(?:entr(?:y|ies)|rows?|records?|items? from|lines? (?:from|in)|fields?|keys?|cache)\b", TEXTUAL, shown=True),
    Row(Kind.DELETED, r"deleted|erased|finished deleting", "",
        TEXTUAL[:-3] + r"|adverbs?|passages?|references?)\b|.* from (?:the|your) (?:text|essay|paragraph|draft|letter|story"
            r"|sentence|code|poem)\b",
        shown=True),
    Row(Kind.DELETED, r"wiped|purged|trashed|emptied|got rid of|removed",
        r"\b(?:files?|folders?|director(?:y|ies)|e-?mails?|mails?|messages?|accounts?|photos?|backups?|branch(?:es)?|users?"
        r"|packages?|containers?|trash"
        r"|logs?|inbox|disk|drive|database|bin|" + PATH + r")\b", TEXTUAL),
    Row(Kind.POSTED, r"posted|uploaded|published|tweeted|submitted|deployed|signed (?:you|him|her|them) up|enrolled you"
        r"|subscribed you", "", r"^ (?:above|below)\b"),
    Row(Kind.POSTED, r"pushed|released|merged",
        r"\b(?:commits?|branch(?:es)?|changes|code|origin|remote|main|master|git|repo|repository|fix|pull request|pr|version"
        r"|release|package)\b"),
    Row(Kind.POSTED, r"shared", r"\b(?:with|to|on|in)\b",
        r"^ (?:my|some|an? (?:few|couple)|information|above|below|what|the (?:relevant|key|details|information|steps))\b"
        r"|.*\bwith you\b"),
    Row(Kind.SENT, r"sent|e-?mailed|mailed|forwarded|messaged|texted|dispatched|replied to|delivered|finished sending"
        r"|let (?!(?:you|me|us)\b)(?:[\w’']+ ){1,3}?know", "", r"^ (?:the|an|my) (?:answer|result)\b"),
    Row(Kind.SENT, r"notified|informed|invited|contacted|reached out to|phoned", "", r"^ you\b|^ us\b"),
    Row(Kind.SENT, r"called", r"\bcalled (?:the|your) (?:\w+ )?(?:restaurant|hotel|doctor|bank|clinic|landlord|office|hotline"
        r"|garage|airline|school|support)\b"),
    Row(Kind.SAVED, r"saved|stored|backed up|exported|archived|copied|logged", "",
        r"^ (?:you|us|me|some|time|money|lives|a lot|yourself|in\b|into\b|from|my (?:claim|argument)|for last|the best"
        r"|the text|it from|that from|them from)\b"),
    Row(Kind.SAVED, r"downloaded", r"\b(?:to|as|into|in) (?:the |your |a )*(?:" + PATH + r"|[\w-]*\s?(?:folder|workspace"
        r"|downloads|disk))\b"),
    Row(Kind.SAVED, r"zipped|compressed|resized|unzipped|converted",
        r"\b(?:zipped|compressed|resized|unzipped)\b.*\b(?:files?|folders?|photos?|images?|" + PATH + r")\b|\b(?:to|into"
        r"|as) (?:a )?(?:pdf|png|jpe?g|mp[34]|docx)\b"),
    Row(Kind.SAVED, r"committed", r"\b(?:changes?|fix|code|it|them|files?|branch|repo|repository|git|item)\b", r"^ to\b"),
    Row(Kind.SAVED, r"wrote|written|appended|recorded|noted(?: down)?|added|put",
        r"\b(?:to|in|into|as|under)\s+(?:(?:the|your|a|an|my|our|new)\s+)*(?:" + PATH
        + r"|[\w-]*\s?(?:files?|disk|folder|workspace|spreadsheet|database|sheet|journal)\b)"
        r"|\b(?:to|in|into|on)\s+(?:the|your|my|our)\s+(?:[\w-]+\s+){0,2}?(?:lists?|notes|logs?|diary)\b"
        r"|\b(?:wrote|written)\s+(?:the|your|a|an)?\s*(?:\w+\s+)?(?:file\b|" + PATH + ")", TEXTUAL, shown=True),
    Row(Kind.CHANGED, r"made", r"\bchanges?\b.*\b(?:files?|config(?:uration)?|settings?|calendar|database|" + PATH + r")",
        shown=True),
    Row(Kind.CREATED, r"created|made|set up|generated|opened|built",
        r"\b(?:created|made|set up|generated|opened|built)\s+(?:(?:a|an|the|your|two|three|\d+|new"
        r"|empty)\s+)*(?:[\w-]+\s+){0,2}?(?:(?:files?|folders?"
        r"|director(?:y|ies)|tickets?|branch|repo(?:sitory)?|accounts?|spreadsheet|database|backup|pull request|issue)\b"
        r"(?! (?:schemas?|formulas?|structure|names?|templates?|descriptions?|titles?|outline|layout|design|model|quer(?:y"
        r"|ies)))|" + PATH + r")"
        r"|\b(?:files?|folders?|director(?:y|ies)|tickets?|branch|repo(?:sitory)?|accounts?|spreadsheet|database|backup"
        r"|pull request|issue"
        r"|" + PATH + r")\s+(?:has|have|was|were|is|are|now|been|successfully|\s)*(?:created|set up|generated)",
        TEXTUAL, shown=True),
    Row(Kind.CHANGED, r"updated|edited|renamed|moved|changed|modified|replaced|configured|enabled|disabled|fixed|removed"
        r"|patched|reset|made|blocked|muted",
        r"\b(?:files?|folders?|calendars?|settings?|config(?:uration)?|accounts?|passwords?|database|records?|contacts?"
        r"|events?|meetings?"
        r"|appointments?|reminders?|spreadsheet|tickets?|branch|servers?|services?|sender|dark mode|notifications|firewall|"
        + PATH + r")\b", TEXTUAL, shown=True),
    Row(Kind.CHANGED, r"moved|archived|marked|flagged|labell?ed|starred|turned (?:on|off|up|down)|switched (?:on|off)|dimmed"
        r"|locked|unlocked|adjusted|lowered|raised|set|turned|switched",
        r"\b(?:e-?mails?|mails?|messages?|inbox|lights?|lamps?|heating|thermostat|volume|brightness|doors?|alarm|wi-?fi|radio"
        r"|tv|music|fan)\b", TEXTUAL),
    Row(Kind.RAN, r"restarted|rebooted"),
    Row(Kind.RAN, r"ran|run|executed|launched|re-?ran",
        r"\b(?:commands?|scripts?|tests?|test suite|suite|pytest|programs?|code|build|migrations?|benchmarks?|jobs?|pipeline"
        r"|linter|daemon|app"
        r"|\w+(?: the)? (?:it|item)|" + PATH + r")\b", r"^ (?:into|out|across|through|over|a (?:search|query|quick search)"
        r"|.*\b(?:mentally|in my head)|by)\b"),
    Row(Kind.RAN, r"started|compiled", r"\b(?:servers?|services?|containers?|jobs?|scripts?|daemon|machine|build|binary"
        r"|project|program|vm)\b",
        r"^ (?:with|by|from|it)\b"),
    Row(Kind.PASSED, r"pass(?:ed|es|ing)?|green|succeed(?:ed|s)?", r"\b(?:tests?|suite|build|pytest)\b"),
    Row(Kind.BOOKED, r"booked|reserved|made (?:a|the|your) (?:\w+ )?(?:reservation|booking|order)|placed (?:a|the"
        r"|your) (?:\w+ )?order"
        r"|rsvp['’]?d", "", r"^ (?:by|judg\w+)\b"),
    Row(Kind.BOOKED, r"placed|confirmed", r"\b(?:orders?|bookings?|reservations?)\b.*\b(?:placed|confirmed)\b"
        r"|\b(?:placed|confirmed) (?:an?|the|your) (?:\w+ )?(?:booking|reservation|order)\b"),
    Row(Kind.BOOKED, r"ordered", "", r"^ (?:.*\bby\b|.*\b(?:alphabetically|chronologically|descending|ascending)\b|(?:the"
        r"|your|these|those|them) ?(?:list|items|results"
        r"|entries|names|points|steps|tasks|events|sections|rows)?\b(?=\W*(?:$|from|so|in\b|with|as|accord)))"),
    Row(Kind.PAID, r"paid|purchased|bought|transferred|refunded|donated|wired", "",
        r"^ (?:attention|close|special|careful|heed|the files?|the data|your files|from|your question)\b"),
    Row(Kind.INSTALLED, r"installed|uninstalled|upgraded|finished installing"),
    Row(Kind.INSTALLED, r"updated", r"\b(?:packages|dependencies|libraries)\b"),
)  # fmt: skip

ENGLISH_BASES = (
    Row(Kind.SENT, r"send|e-?mail|mail|forward|message|text|notify|reply to"),
    Row(Kind.DELETED, r"delete|remove|erase|wipe", "", TEXTUAL),
    Row(Kind.SCHEDULED, r"schedule|reschedule|set (?:up )?(?:a|the|your) (?:reminder|alarm|timer)"),
    Row(Kind.SAVED, r"save|store|export|download|back up", "", r"^ (?:you|time|some|money)\b"), Row(Kind.BOOKED, r"book"
        r"|reserve|order"),
    Row(Kind.PAID, r"pay|purchase|buy|transfer", "", r"^ (?:attention|close)\b"), Row(Kind.INSTALLED, r"install"),
    Row(Kind.POSTED, r"post|upload|publish|deploy"), Row(Kind.CANCELLED, r"cancel"),
    Row(Kind.RAN, r"run|execute", r"\b(?:tests?|scripts?|commands?|build|item)\b"),
)  # fmt: skip

ENGLISH = Tongue(
    rows=ENGLISH_ROWS,
    bases=ENGLISH_BASES,
    shapes=(
        Shape(r"\bI(?:['’]ve|\s+have)?\s+" + ADV + r"(?P<v><V>)\b(?!['’-])" + DOES_NOT_STOP, CLAUSE),
        Shape(r"\bI\s+(?:was able to|were able to|(?:have )?managed to|did)\s+" + ADV + r"(?P<v><DO>)\b", CLAUSE),
        Shape(
            r"(?:\band|,\s*then|,(?=\s*[\w ]{2,22}\s+(?:it|them|your|everything)\b))\s+" + ADV + r"(?P<v><V>)\b(?!-)(?!\s+by\b)"
            + DOES_NOT_STOP,
            LEAD + r"I\b(?!.*(?:\b(?:that|which|who|you (?!to|the|a|an|for|in|on|with|from|at|and|about)\w+|he|she"
                r"|they|was|were|not|never|can|could|will|would|if|should"
            r"|cannot)\b|n['’]t|['’](?:ll|d|m)\b)).*",
        ),
        Shape(SUBJECT + r"\s+(?:has|have)\s+" + ADV + r"been\s+" + ADV + r"(?P<v><V>)\b(?!-)", CLAUSE, report=True),
        Shape(
            r"\b(?:(?-i:[A-Z])\w+|everyone|everybody|(?:the|your) (?:\w+ )?(?:team|group|guests?|clients?|customers?|boss"
            r"|manager|landlord"
            r"|colleagues?|participants|members|support))\s+(?:has|have)\s+" + ADV + r"been\s+" + ADV
            + r"(?P<v>notified|informed|invited|e-?mailed|messaged|contacted|texted)\b", CLAUSE, report=True,
        ),
        Shape(r"(?P<np>it|that|this|they|these)['’](?:s|ve)\s+" + ADV + r"been\s+" + ADV + r"(?P<v><V>)\b", CLAUSE, report=True),
        Shape(SUBJECT + r"(?:['’]s|['’]re|\s+is|\s+are)\s+(?:now|all)\s+" + ADV + r"(?P<v><V>)\b", CLAUSE, report=True),
        Shape(SUBJECT + r"\s+(?:was|were)\s+" + ADV + r"(?P<v><V>)\b", CLAUSE, report=True, weak=True),
        Shape(
            SUBJECT + r"(?:['’]s|['’]re|\s+is|\s+are)\s+(?P<v><V>)\b", LEAD, r"\s*(?:[.!(]|$|successfully|for you\b)",
            report=True, weak=True,
        ),
        Shape(
            r"(?P<np>(?:(?:all|both|new|your|\d+)\s+)?(?:[\w'’-]+\s+){0,2}?" + THING + r")\s+" + ADV + r"(?P<v><V>)\b(?!-)", LEAD,
            r"(?=\s*(?:$|[.!,;(—–-]|(?:to|for|at|as|in|with|successfully|on|under|from|into|and)\b))" + LABELLED + NO_VERB,
            report=True,
        ),
        Shape(
            r"(?P<v>(?!run\b|set\b|put\b|set up\b|released\b|made\b)<V>)\b(?!-)" + DOES_NOT_STOP, LEAD,
            r"(?=" + AFTER + r")" + LABELLED, bare=True,
        ),
        Shape(
            r"\b(?:all|the|both|your|every|\d+)\s+(?:(?!and\b|tests?\b)[\w/]+\s+){0,3}?(?:tests?|test suite|suite|build)\s+"
            r"(?:(?:now|all|have|has|are|is|still|again|successfully|\d+)\s+)*(?P<v>pass(?:ed|es|ing)?|green|succeed(?:ed|s)?)\b",
            CLAUSE, report=True,
        ),
        Shape(
            r"\b(?:the|your)\s+(?:[\w-]+\s+){0,2}?(?:scripts?|commands?|program|migration|job|pipeline|" + PATH +
            r")\s+(?P<v>ran|executed)\b", CLAUSE,
            r"(?= (?:successfully|without|fine|cleanly|to completion|and))", report=True,
        ),
    ),
    innocent=(
        r"\b(?:yesterday|ago|earlier|previously|originally|back then|at the time|last (?:night|week|month|year|time|monday"
        r"|tuesday"
        r"|wednesday|thursday|friday|saturday|sunday|spring|summer|autumn|winter)|this morning|in (?:1\d|20)\d\d"
        r"|(?:last|previous|earlier|first) (?:message|reply|turn|conversation|session)|as I (?:said|told|mentioned|wrote)"
        r"|before[.,]|once before"
        r"|(?:already )?told you|on \d{1,2}(?:st|nd|rd|th)? (?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w* \d{4}"
        r"|might|probably|perhaps|maybe|not sure|I think|I believe|supposedly|for (?:example|instance)|hypothetical(?:ly)?|as if"
        r"|pretend|imagine|simulated?|would have|could have|above|below|in (?:this|the) (?:story|scenario|example|poem))\b"
        r"|^\W*(?:if|suppose|supposing|assuming|unless|had|e\.g\.|let['’]s say|provided)\b|\?\s*[\"')]*$"
        r"|\b(?:said|says|wrote|writes|replied|answered|reads|asked)\s*:|\balready (?:noted|remembered|saved|stored)\b"
        r"|\b(?:translat\w+|in (?:english|german|french|spanish)|means|literally)\s*(?:is|as)?\s*:"
    ),
    told=(
        r"\bby (?!e-?mail|mail|sms|text|phone|now|then|me\b|tomorrow|\d)|\b(?:according to|apparently|seems?|looks like|I see"
        r"|states?|claims?|reported|reports that"
        r"|says|said|mentions?|wrote|tells|shows? that|indicates?|since|already|usually|always|every time|typically|normally"
        r"|often|automatically)\b"
        r"|^\W*(?:once|when|whenever|as soon as|until|after|while|before|because|although|though|whether)\b"
    ),
    denied=r"\b(?:not|never|cannot|neither|nor|unable|without|false|untrue|wrong|mistake)\b|n['’]t\b",
    own=r"\b(?:files?|tests?|build|folders?|e-?mails?|messages?|repl(?:y|ies)|reminders?|alarms?|timers?|notes?|backups?"
        r"|branch|it|they"
        r"|everything|" + PATH + r")\b",
    marked=r"\b(?:done|what I|I did|I have|actions? taken|all set|successfully|for you|as (?:you )?(?:requested|asked)"
        r"|I can confirm|completed|taken care of"
        r"|I['’]ve|no problem|of course)\b|[✅✔☑]",
)  # fmt: skip
