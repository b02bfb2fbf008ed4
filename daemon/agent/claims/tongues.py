"""What a claimed effect sounds like in German, French and Spanish, as far as plain rules carry. Data, no decisions (F6)."""

from daemon.agent.claims.words import Kind, Row, Shape, Tongue

START = r"(?:.*[,;:!(—–-]\s*|.*\b(?:und|aber|et|mais|donc|y|e|pero|ahora|bestätige|confirme que|confirmo que)\s+)?\W*"
END = (
    r"(?=\s*(?:$|[.!,;(—–-]|(?:an|in|unter|nach|für|um|als|am|auf|à|au|aux|dans|sous|pour|en|a|al|como"
    r"|para)\b))(?!.*:\s*$)(?!\s*:)"
)

DE_THING = (
    r"(?:e-?mails?|mails?|nachricht(?:en)?|antwort(?:en)?|einladung(?:en)?|erinnerung(?:en)?|datei(?:en)?|ordner|dokumente?"
    r"|notiz(?:en)?|termine?"
    r"|besprechung|meeting|wecker|timer|tisch|zimmer|flug|flüge|hotel|ticket|bestellung|rechnung|zahlung|backup|eintrag"
    r"|einträge|bericht"
    r"|item|konto|skript|paket|bild(?:er)?|fotos?|anhang|änderungen|einstellungen|[\w/-]+\.[a-z]{1,5})"
)
DE_BY = (
    r"\b(?:von|laut|angeblich|offenbar|anscheinend|scheint|seit|steht|zufolge|wenn|falls|sobald|nachdem|bevor|immer"
    r"|normalerweise)\b"
)
GERMAN = Tongue(
    rows=(
        Row(Kind.REMEMBERED, r"gemerkt|notiert", r"\bmir\b"),
        Row(Kind.SCHEDULED, r"eingetragen|gestellt|angelegt|eingerichtet|gesetzt|erstellt|vereinbart|eingeplant|terminiert",
            r"\b(?:kalender|erinnerung|wecker|timer|termin|eingeplant|terminiert)"),
        Row(Kind.CREATED, r"angelegt|erstellt", r"\b(?:datei|ordner|ticket|[\w/-]+\.[a-z]{1,5})\b"),
        Row(Kind.SENT, r"gesendet|geschickt|verschickt|abgeschickt|versendet|versandt|weitergeleitet|gemailt|benachrichtigt"
            r"|informiert"),
        Row(Kind.DELETED, r"gelöscht|entfernt", "", r"^ aus dem text"),
        Row(Kind.CANCELLED, r"storniert|abgesagt|gekündigt"),
        Row(Kind.SAVED, r"gespeichert|abgespeichert|gesichert|heruntergeladen|geschrieben",
            r"gespeichert|gesichert|geladen|\b(?:datei|[\w/-]+\.[a-z]{1,5}|item)\b"),
        Row(Kind.POSTED, r"hochgeladen|veröffentlicht|gepostet"),
        Row(Kind.RAN, r"ausgeführt|laufen lassen|neu gestartet|gestartet", r"\b(?:tests?|skript|befehl|server|dienst|programm"
            r"|item|build)\b"),
        Row(Kind.BOOKED, r"gebucht|reserviert|bestellt"),
        Row(Kind.PAID, r"bezahlt|überwiesen|gekauft"),
        Row(Kind.INSTALLED, r"installiert"),
        Row(Kind.CHANGED, r"geändert|aktualisiert|umbenannt|verschoben|aktiviert|deaktiviert",
            r"\b(?:datei|ordner|kalender|termin|einstellung(?:en)?|konto|passwort|mail|[\w/-]+\.[a-z]{1,5})\b"),
        Row(Kind.PASSED, r"bestanden|grün|durchgelaufen|erfolgreich", r"\btests?\b"),
    ),
    shapes=(
        Shape(r"\b(?:ich|wir) habe?n?\b(?P<o>(?:(?!\b(?:nicht|keine?[nrms]?|nie|niemals"
            r"|nichts)\b)[^,;:]){0,110}?)\s(?P<v><V>)\b"),
        Shape(r"\bhabe? ich\b(?P<o>(?:(?!\b(?:nicht|keine?[nrms]?|nie|niemals|nichts)\b)[^,;:]){0,110}?)\s(?P<v><V>)\b"),
        Shape(
            r"\bund\b(?P<o>(?:(?!\b(?:nicht|keine?[nrms]?|nie|nichts|er|sie|es|du"
            r"|wurden?)\b)[^,;:]){1,60}?)\s(?P<v><V>)\b",
            r"(?!.*\b(?:nicht|keine?[nrms]?|nie)\b)(?:.*[,;:!]\s*)?\W*(?:ich|wir) habe?n?\b[^,;:]*",
        ),
        Shape(
            r"(?P<o>\b(?:" + DE_THING + r"|es|das|sie|alles|\w+" + DE_THING + r")\b(?:(?!\b(?:nicht|keine?[nrms]?"
            r"|nie)\b)[^,;:]){0,60}?)"
            r"\b(?:wurden?|sind jetzt|ist jetzt|ist nun)\b(?P<p>(?:(?!\b(?:nicht|keine?[nrms]?"
            r"|nie)\b)[^,;:]){0,80}?)\s(?P<v><V>)\b",
            START + r"(?:(?:die|der|das|deine?|ihre?|diese[sr]?|alle|beide)\s+)?(?:\w+\s+){0,2}", report=True,
        ),
        Shape(
            r"(?P<o>(?:die |der |das |deine? |ihre? |alle )?\w*" + DE_THING + r"(?: (?:an|unter|für|in) [\w.@/-]+)?) (?:ist "
            r"|sind )?(?P<v><V>)\b",
            r"\W*(?:(?:erledigt|fertig|ok(?:ay)?|ja|alles klar|gut)\W+)?", END, report=True, weak=True,
        ),
        Shape(
            r"(?P<v><V>)\b", r"\W*(?:(?:erledigt|fertig|ok(?:ay)?|ja|alles klar|gut|super|gern|soeben|ist|wurde)\W+)*", END,
            bare=True,
        ),
        Shape(r"\balle (?:\d+ )?tests? (?:sind |laufen )?(?:jetzt |nun |wieder )*(?P<v>grün|bestanden|durchgelaufen"
            r"|erfolgreich)\b", START),
    ),
    innocent=(
        r"\b(?:gestern|vorgestern|vorhin|früher|damals|letzte[nrs]?|vor (?:\w+ )?(?:tag(?:en)?|stunden?|wochen?|monat(?:en)?"
        r"|jahr(?:en)?)|im jahr"
        r"|zuvor|bereits gesagt|wie (?:schon |bereits )?gesagt|vielleicht|vermutlich|wahrscheinlich|zum beispiel"
        r"|beispielsweise|hätte|würde"
        r"|heute morgen|unten|oben|\d{4} (?:wurde|gespeichert))\b|^\W*(?:wenn|falls|sofern|angenommen|ob)\b|\?\s*$"
        r"|\bim? (?:1\d|20)\d\d\b"
    ),
    told=DE_BY,
    denied=r"\b(?:nicht|nie|niemals|keine?[nrms]?|nichts|ohne|weder|nachdem|sobald|bevor|falls|wenn|ob)\b",
    own=r"\b(?:datei(?:en)?|ordner|e-?mails?|mails?|nachricht(?:en)?|erinnerung(?:en)?|notiz(?:en)?)\b",
    marked=r"\b(?:erledigt|fertig|erfolgreich|wie gewünscht|für dich|ich habe)\b|[✅✔☑]",
)  # fmt: skip

FR_THING = (
    r"(?:e-?mails?|mails?|courriels?|messages?|réponses?|invitations?|rappels?|fichiers?|dossiers?|documents?|notes?"
    r"|rendez-vous|réunions?"
    r"|tables?|chambres?|vols?|billets?|hôtels?|commandes?|factures?|paiements?|sauvegardes?|rapports?|photos?|scripts?"
    r"|paquets?|item"
    r"|modifications|événements?|[\w/-]+\.[a-z]{1,5})"
)
FRENCH = Tongue(
    rows=(
        Row(Kind.REMEMBERED, r"noté|mémorisé|retenu", r"\bj['’]ai (?:bien |donc )*(?:noté (?:que|votre|ton|cela|ça)|mémorisé"
            r"|retenu)|en mémoire"),
        Row(Kind.SCHEDULED, r"programmée?s?|planifiée?s?|créée?s?|ajoutée?s?|mis",
            r"\b(?:programmé|planifié|rappel|calendrier|agenda|événement|rendez-vous|réunion)"),
        Row(Kind.SENT, r"envoyée?s?|transmise?s?|transférée?s?|expédiée?s?|prévenue?s?|informée?s?|notifiée?s?"),
        Row(Kind.DELETED, r"supprimée?s?|effacée?s?"),
        Row(Kind.CANCELLED, r"annulée?s?|résiliée?s?"),
        Row(Kind.SAVED, r"enregistrée?s?|sauvegardée?s?|téléchargée?s?|stockée?s?|écrite?s?|ajoutée?s?",
            r"enregistré|sauvegardé|téléchargé|stocké|\b(?:fichier|liste|notes|[\w/-]+\.[a-z]{1,5}|item)\b"),
        Row(Kind.POSTED, r"publiée?s?|postée?s?|téléversée?s?|mise?s? en ligne"),
        Row(Kind.RAN, r"exécutée?s?|lancée?s?|redémarrée?s?", r"\b(?:tests?|script|commande|serveur|service|programme|item)\b"),
        Row(Kind.BOOKED, r"réservée?s?|commandée?s?"),
        Row(Kind.PAID, r"payée?s?|achetée?s?|réglée?s?|virée?s?"),
        Row(Kind.INSTALLED, r"installée?s?"),
        Row(Kind.CREATED, r"créée?s?", r"\b(?:fichiers?|dossiers?|[\w/-]+\.[a-z]{1,5})\b"),
        Row(Kind.CHANGED, r"modifiée?s?|renommée?s?|déplacée?s?|mise?s? à jour",
            r"\b(?:fichiers?|dossiers?|calendrier|réunion|rendez-vous|compte|réglages?|paramètres?|[\w/-]+\.[a-z]{1,5})\b"),
        Row(Kind.PASSED, r"passent|passés?|réussis?|verts?", r"\btests?\b"),
    ),
    shapes=(
        Shape(
            r"\b(?:j['’]ai|je (?:l['’]|les |vous l['’]|lui |leur )?ai|je (?:l['’]ai|les ai|vous l['’]ai)|nous avons)\s+"
            r"(?:(?:bien|donc|aussi|également|maintenant|immédiatement)\s+)*(?P<v><V>)(?!\w)(?! (?:rien|aucun))",
            START + r"(?:(?:c['’]est fait|voilà|d['’]accord|parfait|fait|oui|ok)\W+)*",
        ),
        Shape(
            r"(?P<o>\b" + FR_THING + r"\b[^,;:]{0,50}?)\s(?:a|ont) (?:bien )?été (?:bien )?(?P<v><V>)(?!\w)",
            START + r"(?:(?:le|la|les|l['’]|votre|vos|ton|ta|tes|ce|cet|cette|tous les|toutes les)\s*)?(?:\w+ ){0,2}",
            report=True,
        ),
        Shape(r"\b(?:il|elle|ils|elles|tout|ça|c['’]) ?(?:a|ont) (?:bien )?été (?P<v><V>)(?!\w)", START, report=True, weak=True),
        Shape(
            r"(?:(?:(?:le|la|les|l['’]|votre|ton|ta) ?)?" + FR_THING + r"(?: (?:est|sont) (?:bien |maintenant )?)?"
            r"|c['’]est) ?(?P<v><V>)(?!\w)",
            r"\W*(?:(?:c['’]est fait|voilà|fait|ok|oui|parfait|terminé)\W+)*", END, report=True, weak=True,
        ),
        Shape(r"(?P<v><V>)(?!\w)", r"\W*(?:(?:c['’]est fait|voilà|fait|ok|oui|parfait|terminé|bien)\W+)*", END, bare=True),
        Shape(r"\btous les tests (?P<v>passent|sont (?:passés|verts|réussis))", START),
    ),
    innocent=(
        r"\b(?:hier|avant-hier|dernière?s?|derniers|il y a|précédemment|auparavant|à l['’]époque|tout à l['’]heure|ce matin"
        r"|peut-être|probablement"
        r"|par exemple|aurais|aurait|ci-dessous|ci-dessus|déjà dit|comme je (?:vous |te )?l['’]ai dit)\b"
        r"|^\W*(?:si|s['’]il|quand|lorsque|supposons|imaginons)\b|\?\s*$|\ben (?:1\d|20)\d\d\b"
    ),
    told=r"\b(?:par|selon|d['’]après|apparemment|semble|depuis|toujours|quand|lorsque|si|indique|mentionne)\b",
    denied=r"\b(?:pas|jamais|aucune?|rien|sans|ni)\b|\bn['’]",
    own=r"\b(?:fichiers?|dossiers?|e-?mails?|mails?|messages?|courriels?|rappels?|notes?)\b",
    marked=r"\b(?:fait|voilà|comme demandé|avec succès|pour vous|pour toi|j['’]ai)\b|[✅✔☑]",
)  # fmt: skip

ES_THING = (
    r"(?:e-?mails?|correos?|mensajes?|respuestas?|invitaci(?:ón|ones)|recordatorios?|archivos?|ficheros?|carpetas?"
    r"|documentos?|notas?|citas?"
    r"|reuni(?:ón|ones)|eventos?|mesas?|habitaci(?:ón|ones)|vuelos?|hotel(?:es)?|pedidos?|facturas?|pagos?|informes?|fotos?"
    r"|script|paquetes?"
    r"|item|cambios|billetes?|[\w/-]+\.[a-z]{1,5})"
)
SPANISH = Tongue(
    rows=(
        Row(Kind.REMEMBERED, r"anotado|anoté|memorizado", r"\b(?:he (?:anotado|memorizado)|anoté) (?:que|tu|su|eso|esto)"
            r"|en (?:mi |la )?memoria"),
        Row(Kind.SCHEDULED, r"programad[oa]s?|programé|agendad[oa]s?|agendé|cread[oa]s?|creé|añadid[oa]s?|añadí|puesto|puse",
            r"\b(?:program|agend|recordatorio|calendario|evento|cita|reunión|alarma)"),
        Row(Kind.SENT, r"enviad[oa]s?|envié|mandad[oa]s?|mandé|reenviad[oa]s?|reenvié|avisado|notificado|envió"),
        Row(Kind.DELETED, r"borrad[oa]s?|borré|eliminad[oa]s?|eliminé|eliminó|borró"),
        Row(Kind.CANCELLED, r"cancelad[oa]s?|cancelé|anulad[oa]s?"),
        Row(Kind.SAVED, r"guardad[oa]s?|guardé|descargad[oa]s?|descargué|almacenad[oa]s?|escrito|escribí|añadid[oa]s?|guardó",
            r"guard|descarg|almacen|\b(?:archivo|lista|notas|[\w/-]+\.[a-z]{1,5}|item)\b"),
        Row(Kind.POSTED, r"publicad[oa]s?|publiqué|subid[oa]s?|subí"),
        Row(Kind.RAN, r"ejecutad[oa]s?|ejecuté|reiniciad[oa]s?|reinicié|lanzad[oa]s?", r"\b(?:pruebas?|tests?|script|comando"
            r"|servidor|servicio|item)\b"),
        Row(Kind.BOOKED, r"reservad[oa]s?|reservé|pedido|pedí"),
        Row(Kind.PAID, r"pagad[oa]s?|pagué|comprad[oa]s?|compré|transferid[oa]s?"),
        Row(Kind.INSTALLED, r"instalad[oa]s?|instalé"),
        Row(Kind.CREATED, r"cread[oa]s?|creé", r"\b(?:archivos?|ficheros?|carpetas?|[\w/-]+\.[a-z]{1,5})\b"),
        Row(Kind.CHANGED, r"actualizad[oa]s?|actualicé|renombrad[oa]s?|movid[oa]s?|moví|modificad[oa]s?|cambiad[oa]s?|cambié",
            r"\b(?:archivos?|carpetas?|calendario|reunión|cita|cuenta|ajustes|configuración|[\w/-]+\.[a-z]{1,5})\b"),
        Row(Kind.PASSED, r"pasan|pasado|pasaron|verdes?", r"\b(?:tests?|pruebas?)\b"),
    ),
    shapes=(
        Shape(
            r"\b(?:(?:te |le |les |lo |la |los |las |se )*(?:he|hemos)\s+(?:(?:ya|también|bien"
            r"|ahora)\s+)*(?P<v><V>))(?!\w)(?! (?:nada|ningun))",
            START + r"(?:(?:listo|hecho|ya|vale|ok|sí|perfecto|claro|también)\W+)*(?:(?:te|le|lo|la|ya|se)\s+)*",
        ),
        Shape(
            r"(?<!\w)(?P<v>envié|mandé|reenvié|borré|eliminé|guardé|descargué|programé|agendé|publiqué|subí|ejecuté|reinicié"
            r"|reservé|pagué|compré"
            r"|instalé|cancelé|creé|anoté|añadí|moví|cambié|actualicé)(?!\w)(?! (?:nada|ningun))",
            START + r"(?:(?:listo|hecho|ya|vale|ok|sí|perfecto|claro|también|te|le|les|lo|la|los|las|se)\W+)*",
        ),
        Shape(
            r"(?P<o>\b" + ES_THING + r"\b[^,;:]{0,50}?)\s(?:ha sido|han sido|fue|fueron|se ha|se han|ya está|ya están"
            r"|se)\s(?P<v><V>)(?!\w)",
            START + r"(?:(?:el|la|los|las|tu|tus|su|sus|este|esta|todos los|todas las)\s+)?(?:\w+ ){0,2}", report=True,
        ),
        Shape(
            r"(?:(?:el |la |tu |su )?" + ES_THING + r" (?:está |están )?)(?P<v><V>)(?!\w)",
            r"\W*(?:(?:listo|hecho|ya|vale|ok|sí|perfecto)\W+)*", END, report=True, weak=True,
        ),
        Shape(
            r"(?P<v>(?!pedido\b|escrito\b|puesto\b)<V>)(?!\w)", r"\W*(?:(?:listo|hecho|ya|vale|ok|sí|perfecto|está)\W+)*", END,
            bare=True,
        ),
        Shape(r"\btodas? l[ao]s (?:tests?|pruebas?) (?:han )?(?P<v>pasan|pasado|pasaron|están en verde)", START),
    ),
    innocent=(
        r"\b(?:ayer|anteayer|anoche|pasad[oa]s? (?:semana|mes|año|lunes)|(?:semana|mes|año|lunes|martes|viernes) pasad[oa]"
        r"|hace (?:\w+ )?(?:días?|horas?"
        r"|semanas?|meses|años?|rato)|antes|anteriormente|quizás?|tal vez|probablemente|por ejemplo|habría|hubiera|abajo"
        r"|arriba|esta mañana"
        r"|como (?:te |le )?(?:dije|conté))\b|^\W*(?:si|cuando|suponiendo|imagina)\b|\?\s*$|\ben (?:1\d|20)\d\d\b"
    ),
    told=r"\b(?:por|según|al parecer|parece|desde|siempre|cuando|si|indica|dice)\b",
    denied=r"\b(?:no|nunca|jamás|ningún|ninguna?|nada|sin|ni)\b",
    own=r"\b(?:archivos?|ficheros?|carpetas?|correos?|mensajes?|recordatorios?|notas?)\b",
    marked=r"\b(?:listo|hecho|con éxito|correctamente|como pediste|he)\b|[✅✔☑]",
)  # fmt: skip
