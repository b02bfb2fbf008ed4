"""E-mail: a mailbox that is watched over IMAP, and answers by SMTP."""
