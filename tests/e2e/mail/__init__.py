"""A daemon with a real mailbox: Dovecot over IMAP, answers by SMTP."""
