"""The former place of `normalize`."""

from daemon.core.quoted import normalize as normalize
