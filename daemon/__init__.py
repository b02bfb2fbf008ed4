"""aidaemon: an assistant daemon that people leave running and trust."""

VERSION = "0.1.0"
