"""Heads of mails, as they arrive at the mailbox of a server that calls itself mx.example.net: forged ones and honest ones."""

from collections.abc import Mapping

from tests.fakes.mail.dovecot import SERVER, USER

AR, FROM = f"Authentication-Results: {SERVER}; ", "From: Ann <ann@example.org>"
FAIL = f"{AR}dmarc=fail header.from=example.org"
PASS = f"{AR}dmarc=pass header.from=example.org"
EVIL = f"{AR}dmarc=pass header.from=evil.com"
NOTHING = f"{AR}dkim=none; spf=none; dmarc=none header.from=example.org"


def lines(*head: str) -> bytes:
    """A mail with this head."""
    return ("\r\n".join((*head, f"To: {USER}", "Subject: do it", "", "run it")) + "\r\n").encode()


def said(what: str, who: str = FROM) -> bytes:
    """What our server says of this sender."""
    return lines(f"{AR}{what}", who)


def named(who: str) -> bytes:
    """Who it claims to be from, while our server says that the one domain, or the other, wrote it."""
    return lines(f"{AR}dkim=pass header.d=evil.com; spf=pass smtp.mailfrom=x@evil.com", who)


PLACES: Mapping[str, bytes] = {
    "none at all": lines(FROM),
    "forged below ours": lines(FAIL, PASS, FROM),
    "forged below ours that knows nothing": lines(NOTHING, PASS, FROM),
    "forged below From": lines(FAIL, FROM, PASS),
    "forged below From where our server said nothing": lines(FROM, PASS),
    "forged below Received and From": lines("Received: from a by b", FROM, PASS),
    "forged by another server": lines("Authentication-Results: mx.evil.com; dmarc=pass", FROM),
    "another server that names ours": lines(f"Authentication-Results: evil.com {PASS[24:]}", FROM),
    "another server with ours as a comment": lines(
        f"Authentication-Results: evil.com ({SERVER}); dmarc=pass header.from=example.org", FROM
    ),
    "ours as a beginning": lines(
        f"Authentication-Results: {SERVER}.evil.com; dmarc=pass header.from=example.org", FROM
    ),
    "ours as an end": lines(
        f"Authentication-Results: evil{SERVER}; dmarc=pass header.from=example.org", FROM
    ),
    "ours with a sign": lines(
        f"Authentication-Results: {SERVER}_; dmarc=pass header.from=example.org", FROM
    ),
    "ours with a final dot": lines(
        f"Authentication-Results: {SERVER}.; dmarc=pass header.from=example.org", FROM
    ),
    "ours with a comment close by": lines(
        f"Authentication-Results: {SERVER}(x); dmarc=pass header.from=example.org", FROM
    ),
    "ours behind a comment": lines(
        f"Authentication-Results: (x) {SERVER}; dmarc=pass header.from=example.org", FROM
    ),
    "ours in quotes": lines(
        f'Authentication-Results: "{SERVER}"; dmarc=pass header.from=example.org', FROM
    ),
    "ours and a word": lines(
        f"Authentication-Results: {SERVER} evil; dmarc=pass header.from=example.org", FROM
    ),
    "ours and a vertical tab": lines(
        f"Authentication-Results: {SERVER}\x0bevil; dmarc=pass header.from=example.org", FROM
    ),
    "ours and a space that is none": lines(
        f"Authentication-Results: {SERVER}\xa0; dmarc=pass header.from=example.org", FROM
    ),
    "ours of another version": lines(
        f"Authentication-Results: {SERVER} 2; dmarc=pass header.from=example.org", FROM
    ),
    "ours in a letter that looks alike": lines(
        "Authentication-Results: m\u0445.example.net; dmarc=pass header.from=example.org", FROM
    ),
    "ours with a letter that cannot be seen": lines(
        "Authentication-Results: mx.exa\xadmple.net; dmarc=pass header.from=example.org", FROM
    ),
    "ours folded behind another": lines(
        f"Authentication-Results: evil.com;\r\n {SERVER}; dmarc=pass header.from=example.org", FROM
    ),
    "an odd one of ours above a forged one": lines(
        f"Authentication-Results: {SERVER}(x); dmarc=fail header.from=example.org", PASS, FROM
    ),
    "X-Authentication-Results": lines(f"X-{PASS}", FROM),
    "Authentication-Results-Original": lines(PASS.replace("Results:", "Results-Original:"), FROM),
    "a space before the colon": lines(PASS.replace("Results:", "Results :"), FROM),
    "ARC": lines(f"ARC-Authentication-Results: i=1; {PASS[24:]}", "ARC-Seal: i=1; cv=pass", FROM),
    "ARC above a failure": lines(f"ARC-Authentication-Results: i=1; {PASS[24:]}", FAIL, FROM),
    "Received-SPF": lines(
        "Received-SPF: pass (mx.example.net: domain of ann@example.org) client-ip=192.0.2.1", FROM
    ),
    "behind a bare CR": lines("X-Spam: no\r" + PASS, FROM),
    "behind a bare CR, From too": lines(EVIL, f"X-Spam: no\r{FROM}"),
    "behind a NUL": lines(f"X-Spam: no\0\r\n {PASS}", FROM),
    "behind a vertical tab": lines("X-Spam: no\x0b" + PASS, FROM),
    "in a part": lines(
        FROM, 'Content-Type: multipart/mixed; boundary="b"', "", "--b", PASS, FROM, "", "x", "--b--"
    ),
    "in a mail that it holds": lines(FROM, "Content-Type: message/rfc822", "", PASS, FROM, "", "x"),
    "in the text": lines(FROM, "", PASS),
    "behind a line that is no header": lines(EVIL, "no header", FROM, PASS),
}  # fmt: skip
"""Where a statement stands that our server has not made."""

RESULTS: Mapping[str, bytes] = {
    "nothing was looked at": said("none"),
    "DMARC failed": said("dmarc=fail header.from=example.org"),
    "DMARC failed in capitals": said("DMARC=FAIL header.from=example.org"),
    "DMARC passed in a comment": said("dmarc=fail (dmarc=pass) header.from=example.org"),
    "DMARC passed in a reason": said('dmarc=fail reason="x; dmarc=pass" header.from=example.org'),
    "DMARC as good as passed": said("dmarc=bestguesspass header.from=example.org"),
    "DMARC passes": said("dmarc=passes header.from=example.org"),
    "DMARC of no domain": said("dmarc=pass"),
    "DMARC of no domain, with a policy": said("dmarc=pass (p=reject) policy.dmarc=reject"),
    "DMARC of another domain": said("dmarc=pass header.from=evil.com"),
    "DMARC of a domain below": said("dmarc=pass header.from=mail.example.org"),
    "DMARC of the domain above": said("dmarc=pass header.from=org"),
    "DMARC of two domains": said("dmarc=pass header.from=example.org header.from=evil.com"),
    "DMARC of a longer name": said("dmarc=pass header.from=example.org.evil.com"),
    "DMARC of a name in a comment": said("dmarc=pass header.from=evil.com (example.org)"),
    "DMARC of a name before a comment": said("dmarc=pass header.from=example.org(.evil.com)"),
    "DMARC of a name before an open comment": said("dmarc=pass header.from=example.org(.evil.com"),
    "DMARC of the envelope": said("dmarc=pass smtp.mailfrom=example.org"),
    "DMARC of the signer": said("dmarc=pass header.d=example.org"),
    "DMARC twice": said("dmarc=pass header.from=example.org; dmarc=fail header.from=example.org"),
    "DMARC twice, of two": said("dmarc=pass header.from=example.org; dmarc=pass header.from=evil.com"),
    "DMARC failed, DKIM passed": said(
        "dmarc=fail header.from=example.org; dkim=pass header.d=example.org"
    ),
    "DMARC failed, SPF passed": said(
        "dmarc=fail header.from=example.org; spf=pass smtp.mailfrom=ann@example.org"
    ),
    "DMARC could not be looked at": said(
        "dmarc=temperror header.from=example.org; dkim=pass header.d=example.org"
    ),
    "DKIM of another domain": said("dkim=pass header.d=evil.com"),
    "DKIM of a domain below": said("dkim=pass header.d=mail.example.org"),
    "DKIM of the domain above": said("dkim=pass header.d=org"),
    "DKIM of nobody": said("dkim=pass"),
    "DKIM of two domains": said("dkim=pass header.d=example.org header.d=evil.com"),
    "DKIM of one, for another": said("dkim=pass header.d=evil.com header.i=@example.org"),
    "DKIM failed": said("dkim=fail header.d=example.org"),
    "DKIM passed for another, failed for ours": said(
        "dkim=pass header.d=evil.com; dkim=fail header.d=example.org"
    ),
    "DKIM under test": said("dkim=neutral header.d=example.org"),
    "DKIM by another property": said("dkim=pass header.from=example.org"),
    "DKIM by policy": said("dkim=pass policy.d=example.org"),
    "DKIM of an open comment": said("dkim=pass header.d=example.org(.evil.com header.s=x)"),
    "DKIM of an open comment, closed later": said(
        "dkim=pass header.d=example.org(.evil.com header.s=x); spf=none (x)"
    ),
    "DKIM-ADSP": said("dkim-adsp=pass header.from=example.org"),
    "DomainKeys": said("domainkeys=pass header.from=ann@example.org"),
    "Sender-ID": said("sender-id=pass header.from=ann@example.org"),
    "auth": said("auth=pass smtp.auth=ann@example.org"),
    "BIMI": said("bimi=pass header.d=example.org"),
    "ARC": said("arc=pass header.d=example.org"),
    "a method that looks alike": said("xdmarc=pass header.from=example.org"),
    "a method of another version": said("dmarc/2=pass header.from=example.org"),
    "SPF of another domain": said("spf=pass smtp.mailfrom=x@evil.com"),
    "SPF of a domain below": said("spf=pass smtp.mailfrom=bounce@mail.example.org"),
    "SPF of the greeting": said("spf=pass smtp.helo=example.org"),
    "SPF of no sender": said("spf=pass smtp.mailfrom="),
    "SPF of the null sender": said("spf=pass smtp.mailfrom=<>"),
    "SPF, softly": said("spf=softfail smtp.mailfrom=ann@example.org"),
    "SPF of an address in quotes": said('spf=pass smtp.mailfrom="ann@example.org"@evil.com'),
    "SPF of a name in a comment": said("spf=pass (domain of ann@example.org) smtp.mailfrom=x@evil.com"),
    "SPF of a route": said("spf=pass smtp.mailfrom=@example.org:x@evil.com"),
    "SPF of an address with percent": said("spf=pass smtp.mailfrom=ann%example.org@evil.com"),
    "the envelope ends the comment": said(
        'spf=pass (domain of "a); dmarc=pass header.from=example.org (b"@evil.com) smtp.mailfrom=x@evil.com'
    ),
    "the envelope ends the comment without quotes": said(
        "spf=pass (domain of a);dmarc=pass header.from=example.org(b@evil.com) smtp.mailfrom=x@evil.com"
    ),
    "the envelope ends the value": said(
        'spf=pass smtp.mailfrom="a;dmarc=pass header.from=example.org"@evil.com'
    ),
    "the envelope ends the value by a backslash": said(
        'spf=pass smtp.mailfrom="a\\"; dmarc=pass header.from=example.org; x=y z.z="'
    ),
    "the greeting ends the comment": said(
        "spf=pass (helo=x);dmarc=pass header.from=example.org(y; client-ip=192.0.2.1) smtp.mailfrom=x@evil.com"
    ),
    "broken off": said("dmarc=pass header.from=example.org; dkim="),
    "no semicolon": lines(f"Authentication-Results: {SERVER} dmarc=pass header.from=example.org", FROM),
    "commas": said("dmarc=fail, dkim=pass header.d=example.org"),
    "a name in letters that look alike": said("dkim=pass header.d=ex\u0430mple.org"),
    "endless": said("dmarc=pass header.from=example.org" + "; x=y" * 20_000),
}  # fmt: skip
"""What our server says, which proves nothing for ann@example.org."""

WRITERS: Mapping[str, bytes] = {
    "two From": lines(PASS, FROM, "From: x@evil.com"),
    "two From, the other first": lines(PASS, "From: x@evil.com", FROM),
    "the same From twice": lines(PASS, FROM, FROM),
    "two From, one in capitals": lines(PASS, "FROM: x@evil.com", FROM),
    "no From": lines(PASS, "To: bot@example.net"),
    "an empty From": lines(PASS, "From:"),
    "two addresses": lines(PASS, "From: ann@example.org, x@evil.com"),
    "two addresses, the other first": lines(PASS, "From: x@evil.com, ann@example.org"),
    "two addresses without a comma": lines(PASS, "From: ann@example.org x@evil.com"),
    "two addresses and a semicolon": lines(PASS, "From: ann@example.org; x@evil.com"),
    "two in brackets": lines(PASS, "From: <ann@example.org> <x@evil.com>"),
    "brackets in brackets": lines(PASS, "From: <ann@example.org<x@evil.com>>"),
    "a group": lines(PASS, "From: us: ann@example.org, x@evil.com;"),
    "a group of one": lines(PASS, "From: us: ann@example.org;"),
    "an empty group": lines(PASS, "From: ann@example.org:;"),
    "a group and one": lines(PASS, "From: us:;, ann@example.org"),
    "a route": lines(PASS, "From: <@evil.com:ann@example.org>"),
    "two at signs": lines(PASS, "From: ann@example.org@evil.com"),
    "two at signs, the other way": lines(PASS, "From: x@evil.com@example.org"),
    "a NUL": lines(PASS, "From: ann@example.org\0@evil.com"),
    "a NUL at its end": lines(PASS, "From: ann@example.org\0"),
    "an escape": lines(PASS, "From: ann@example.org \x1b[2K"),
    "a vertical tab": lines(PASS, "From: x@evil.com\x0b<ann@example.org>"),
    "a backspace": lines(PASS, "From: x@evil.com\x08 <ann@example.org>"),
    "a space within": lines(PASS, "From: ann @ example.org x"),
    "a comment within": lines(PASS, "From: ann@evil.com(x@example.org)"),
    "a comment in brackets": lines(PASS, "From: <ann(x@evil.com)@example.org>"),
    "a comment around brackets": lines(PASS, "From: (<ann@example.org>) x@evil.com"),
    "a local part in quotes": lines(PASS, 'From: "ann@example.org"@evil.com'),
    "a local part in quotes, with brackets": lines(PASS, 'From: "ann@example.org> <x"@evil.com'),
    "a name with an address": named('From: "ann@example.org" <x@evil.com>'),
    "a name with an address, without quotes": named("From: ann@example.org <x@evil.com>"),
    "a name with an address in brackets": named('From: "Ann <ann@example.org>" <x@evil.com>'),
    "a name as an encoded word": named("From: =?utf-8?q?ann=40example.org?= <x@evil.com>"),
    "a name that ends by an encoded word": named(
        "From: =?utf-8?q?Ann_=3Cann=40example.org=3E?= <x@evil.com>"
    ),
    "an encoded word as the address": lines(PASS, "From: =?utf-8?q?ann=40example.org?="),
    "an encoded word as the local part": lines(PASS, "From: =?utf-8?q?ann?=@example.org"),
    "an encoded word in brackets": lines(PASS, "From: x <=?utf-8?q?ann=40example.org?=>"),
    "an encoded word as the domain": lines(PASS, "From: ann@=?utf-8?q?example.org?="),
    "an encoded NUL": named("From: =?utf-8?q?ann=40example.org=00?= <x@evil.com>"),
    "an encoded newline and a header": named(
        "From: =?utf-8?q?a=0D=0AFrom:_ann=40example.org?= <x@evil.com>"
    ),
    "an encoded newline and a result": lines(
        f"Subject: =?utf-8?q?a=0D=0A{PASS.replace(' ', '_').replace('=', '=3D')}?=", FROM
    ),
    "an encoded newline in base64": lines(
        "Subject: =?utf-8?b?YQ0KQXV0aGVudGljYXRpb24tUmVzdWx0czogbXguZXhhbXBsZS5uZXQ7IGRtYXJjPXBhc3M=?=",
        FROM,
    ),
    "folded within the address": lines(PASS, "From: ann@example\r\n .org"),
    "folded, with another": lines(PASS, "From: x@evil.com\r\n\t, ann@example.org"),
    "a final dot": lines(PASS, "From: ann@example.org."),
    "two final dots": lines(PASS, "From: ann@example.org.."),
    "a dot first": lines(PASS, "From: ann@.example.org"),
    "an address of numbers": lines(PASS, "From: ann@[192.0.2.1]"),
    "a longer domain": lines(f"{AR}dmarc=pass header.from=example.org.evil.net", "From: ann@example.org.evil.net"),
    "a domain that ends alike": lines(f"{AR}dmarc=pass header.from=evilexample.org", "From: ann@evilexample.org"),
    "a domain below": lines(f"{AR}dmarc=pass header.from=sub.example.org", "From: ann@sub.example.org"),
    "another top": lines(f"{AR}dmarc=pass header.from=example.com", "From: ann@example.com"),
    "a letter that looks alike": lines(PASS, "From: ann@ex\u0430mple.org"),
    "a local part that looks alike": lines(PASS, "From: \u0430nn@example.org"),
    "a wide letter": lines(PASS, "From: ann@\uff45xample.org"),
    "a letter of another case": lines(PASS, "From: ann@e\u212aample.org"),
    "punycode": lines(f"{AR}dmarc=pass header.from=xn--exmple-4nf.org", "From: ann@xn--exmple-4nf.org"),
    "an invisible letter": lines(PASS, "From: ann@exam\u200bple.org"),
    "a line separator": lines(PASS, "From: ann@exam\u2028ple.org"),
    "a soft hyphen": lines(PASS, "From: ann@exam\xadple.org"),
    "Sender is Ann": named("From: x@evil.com\r\nSender: ann@example.org"),
    "Reply-To is Ann": named("From: x@evil.com\r\nReply-To: ann@example.org"),
    "Return-Path is Ann": named("From: x@evil.com\r\nReturn-Path: <ann@example.org>"),
    "Resent-From is Ann": named("From: x@evil.com\r\nResent-From: ann@example.org"),
    "X-From is Ann": named("From: x@evil.com\r\nX-From: ann@example.org\r\nX-Original-From: ann@example.org"),
    "Sender is proven, From is Ann": lines(EVIL, FROM, "Sender: x@evil.com"),
    "From is Ann, the envelope is another's": named(FROM),
    "From behind a space": lines(EVIL, "From : ann@example.org", "From: x@evil.com"),
    "somebody else of another domain": lines(EVIL, "From: x@evil.com"),
    "endless": lines(PASS, f"From: {'a, ' * 20_000}ann@example.org"),
    "endless comments": lines(PASS, f"From: {'(' * 5_000}ann@example.org"),
    "endless encoded words": lines(PASS, f"From: {'=?utf-8?q?a?= ' * 5_000}<ann@example.org>"),
}  # fmt: skip
"""Who seems to have written it."""

HONEST: Mapping[str, bytes] = {
    "DMARC": lines(PASS, FROM),
    "capitals": lines(
        f"AUTHENTICATION-RESULTS: {SERVER.upper()}; DMARC=PASS HEADER.FROM=EXAMPLE.ORG",
        "FROM: ANN@EXAMPLE.ORG",
    ),
    "folded": lines(f"Authentication-Results:\r\n\t{SERVER};\r\n\tdmarc=pass\r\n\theader.from=example.org", FROM),
    "a version": lines(f"Authentication-Results: {SERVER} 1; dmarc=pass header.from=example.org", FROM),
    "below what a later server says": lines("Authentication-Results: later.net; dmarc=fail", PASS, FROM),
    "above a failure that another forged": lines(PASS, FAIL, FROM),
    "the address itself": said("dmarc=pass header.from=ann@example.org", "From: ann@example.org"),
    "DKIM alone": said("dkim=pass header.d=example.org header.s=s1"),
    "DKIM by its identity": said('dkim=pass header.i=@example.org header.s=s1 header.b="aB/+c=="'),
    "DKIM of another as well": said("dkim=pass header.d=list.net; dkim=pass header.d=example.org"),
    "SPF alone": said("spf=pass smtp.mailfrom=ann@example.org"),
    "SPF of a domain": said("spf=pass smtp.mailfrom=example.org"),
    "a name with a comma": said("dmarc=pass header.from=example.org", 'From: "Ann, of us" <ann@example.org>'),
    "a name as an encoded word": said(
        "dmarc=pass header.from=example.org", "From: =?utf-8?q?J=C3=B6rg?= <ann@example.org>"
    ),
    "a name in raw UTF-8": said(
        "dmarc=pass header.from=example.org", "From: J\u00f6rg <ann@example.org>"
    ),
    "a comment behind": said("dmarc=pass header.from=example.org", "From: ann@example.org (Ann)"),
    "Gmail": lines(
        "Delivered-To: bot@example.net",
        "Received: by 2002:a17:906:1234:b0:1 with SMTP id x1; Sat, 21 Nov 2026 12:00:01 -0800 (PST)",
        "X-Received: by 2002:a05:6512:3b0d:b0:1 with SMTP id y1; Sat, 21 Nov 2026 12:00:01 -0800 (PST)",
        f"ARC-Authentication-Results: i=1; {SERVER};\r\n       dkim=pass header.i=@example.org",
        "Return-Path: <ann@example.org>",
        f"Received: from mail.example.org (mail.example.org. [192.0.2.1])\r\n        by {SERVER} with ESMTPS id z1",
        "Received-SPF: pass (google.com: domain of ann@example.org designates 192.0.2.1 as permitted sender) client-ip=192.0.2.1;",
        f"Authentication-Results: {SERVER};\r\n       dkim=pass header.i=@example.org header.s=s1 header.b=\"aBc/+0=\";\r\n"
        "       spf=pass (google.com: domain of ann@example.org designates 192.0.2.1 as permitted sender)"
        " smtp.mailfrom=ann@example.org;\r\n       dmarc=pass (p=REJECT sp=REJECT dis=NONE) header.from=example.org",
        "DKIM-Signature: v=1; a=rsa-sha256; d=example.org; s=s1; b=x",
        FROM,
    ),
    "Postfix, OpenDKIM and OpenDMARC": lines(
        f"Received: from {SERVER}\r\n\tby {SERVER} with LMTP id 1",
        f"Received: from mail.example.org (mail.example.org [192.0.2.1])\r\n\tby {SERVER} (Postfix) with ESMTPS id 2",
        f"Authentication-Results: {SERVER}; dmarc=pass (p=none dis=none) header.from=example.org",
        f"Authentication-Results: {SERVER};\r\n\tdkim=pass (2048-bit key; unprotected) header.d=example.org"
        ' header.i=@example.org header.a=rsa-sha256 header.s=s1 header.b="a/b+c="',
        "Received: from laptop by mail.example.org",
        FROM,
    ),
    "rspamd": lines(
        f"Authentication-Results: {SERVER};\r\n\tdkim=pass header.d=example.org header.s=s1 header.b=abc;\r\n"
        f"\tspf=pass ({SERVER}: domain of ann@example.org designates 192.0.2.1 as permitted sender)"
        " smtp.mailfrom=ann@example.org;\r\n\tdmarc=pass (policy=reject) header.from=example.org",
        f"Received: from mail.example.org by {SERVER} (Postfix) with ESMTPS id 2",
        FROM,
    ),
    "pyspf": said(
        "spf=pass (sender SPF authorized) smtp.mailfrom=example.org (client-ip=192.0.2.1;"
        " helo=mail.example.org; envelope-from=ann@example.org; receiver=bot@example.net)"
    ),
    "a reason": said('dkim=pass reason="2048-bit key" header.d=example.org'),
}  # fmt: skip
"""What must be believed."""
