"""Draft methods: how candidate trees are guessed. One file per method."""
