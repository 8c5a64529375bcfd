"""Trains a draft head for a target, in stages: prompts, answers, features, optimisation."""
