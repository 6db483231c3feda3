"""What the command `opplab host` needs beyond crate `host`."""
