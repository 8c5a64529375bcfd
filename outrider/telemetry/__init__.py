"""What the processes report: traces, metrics and logs. Never torch, never a prompt or an answer."""
