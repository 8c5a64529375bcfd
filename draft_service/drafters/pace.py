"""Whether asking a draft network pays, learnt from how fast streams go on with it and without.

No table knows what a round costs where drafting and verifying share cores, links or a queue. So
both ways take turns, a few rounds at a time: the faster one stays, and the other is tried again
ever more rarely while it keeps losing. Owns no clock, knows no networks.
"""

from dataclasses import dataclass, field

SPELL_ROUNDS = 4  # of each session, behind one that settles in
FIRST_STAY = 8  # spells until the slower way is tried again; doubled each time that it loses
LONGEST_STAY = 128
WEIGHT = 0.5  # of the newest spell


@dataclass(slots=True)
class _Load:
    """What is known for about so many sessions at a time.

    Args:
        asks: The way that is taken now.
        kept: The way that was the faster one so far.
        stay: Spells that the kept way is given.
        spells_left: Of these.
        rates: Tokens per second of one session, smoothed, by way.
        notes: Rounds of this spell.
        tokens: Of those that count.
        seconds: Of those that count.
    """

    asks: bool = True
    kept: bool = True
    stay: int = FIRST_STAY
    spells_left: int = 0
    rates: dict[bool, float] = field(default_factory=dict)
    notes: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def end_spell(self) -> None:
        """Takes the spell's rate and chooses the way of the next one."""
        if self.seconds > 0.0:
            rate = self.tokens / self.seconds
            known = self.rates.get(self.asks, rate)
            self.rates[self.asks] = known + WEIGHT * (rate - known)
            self._choose()
        self.notes, self.tokens, self.seconds = 0, 0, 0.0

    def _choose(self) -> None:
        other = not self.asks
        if other not in self.rates:
            self.asks = other
        elif self.asks is not self.kept or len(self.rates) < 2:
            self._judge_trial()
        else:
            self.spells_left -= 1
            if self.spells_left <= 0 or self.rates[other] > self.rates[self.kept]:
                self.asks = other

    def _judge_trial(self) -> None:
        trial, kept = self.asks, self.kept
        if self.rates[trial] > self.rates[kept]:
            self.kept, self.stay = trial, FIRST_STAY
        else:
            self.stay = min(2 * self.stay, LONGEST_STAY)
        self.asks, self.spells_left = self.kept, self.stay


class Pace:
    """Chooses between asking the network and letting it rest, for all sessions at once."""

    def __init__(self) -> None:
        self._loads: dict[int, _Load] = {}

    def asks(self, session_count: int) -> bool:
        """True where the network is to be asked now.

        Args:
            session_count: Sessions that are open, at least 1.
        """
        return self._load(session_count).asks

    def note(self, session_count: int, asked: bool, tokens: int, seconds: float) -> None:
        """Takes one round of one session, from its tree to its next one.

        Args:
            session_count: Sessions that are open, at least 1.
            asked: The network was asked for that tree.
            tokens: That the round committed.
            seconds: That it took, waiting included.
        """
        load = self._load(session_count)
        if asked is not load.asks:
            return  # it began before this spell
        load.notes += 1
        if load.notes > session_count:
            load.tokens += tokens
            load.seconds += seconds
        if load.notes >= session_count * (1 + SPELL_ROUNDS):
            load.end_spell()

    def _load(self, session_count: int) -> _Load:
        """Loads are alike where their sessions round up to the same power of two."""
        return self._loads.setdefault((session_count - 1).bit_length(), _Load())
