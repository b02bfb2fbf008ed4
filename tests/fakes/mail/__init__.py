"""A real mail server on loopback: Dovecot for IMAP and delivery, aiosmtpd for what is sent, a proxy that breaks connections."""
