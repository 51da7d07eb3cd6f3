"""Log folders and the files in them: `ottla log-dirs` and `ottla dump-log`."""
