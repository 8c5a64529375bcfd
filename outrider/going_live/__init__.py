"""The go-live list, run against a service that serves: `outrider check`."""
