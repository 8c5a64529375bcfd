"""Whether asking a draft network pays, learnt from how fast streams go on with it and without.

No table knows what a round costs where drafting and verifying share cores, links or a queue. So
both ways take turns, a few rounds at a time: the faster one stays, and the other is tried again
ever more rarely while it keeps losing. A network that has rested is the dearer one to try: it has
to read prompts first. Owns no clock, knows no networks.
"""

from dataclasses import dataclass, field

SPELL_ROUNDS = 4  # of each session, behind one that settles in
FEWEST_ROUNDS = 32  # of all sessions of a spell: a few rounds of one stream are mere chance
WINS = 2  # spells in a row by which a trial has to win
FIRST_STAY = {True: 8, False: 32}  # spells of the way that is kept until the other one is tried
LONGEST_STAY = {True: 128, False: 512}  # behind trials that were lost
CLEARLY = 0.8  # a way with less than this share of the other's speed has lost already
WEIGHT = 0.5  # of the newest spell
PREFILL_ROUNDS = 8  # in a row, of each session, are left out; where prefill hardly ends they count
CLEAN_WORTH = 4  # rounds with prefill for which one without makes up


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
        wins: Spells in a row by which this trial has won.
        prefill_rounds: Rounds that met prefill and for which none without has made up.
    """

    asks: bool = True
    kept: bool = True
    stay: int = FIRST_STAY[True]
    spells_left: int = 0
    rates: dict[bool, float] = field(default_factory=dict)
    notes: int = 0
    tokens: int = 0
    seconds: float = 0.0
    wins: int = 0
    prefill_rounds: int = 0

    def take(self, tokens: int, seconds: float, session_count: int, met_prefill: bool) -> None:
        """Takes a round of this spell; the first one of each session lets it settle in."""
        if met_prefill:
            most = PREFILL_ROUNDS * session_count
            self.prefill_rounds = min(most, self.prefill_rounds + 1)
            if self.prefill_rounds < most:
                return
        else:
            self.prefill_rounds = max(0, self.prefill_rounds - CLEAN_WORTH)
        self.notes += 1
        if self.notes > session_count:
            self.tokens += tokens
            self.seconds += seconds
        judged = self.notes - session_count
        is_over = judged >= max(SPELL_ROUNDS * session_count, FEWEST_ROUNDS)
        if is_over or (judged >= max(session_count, FEWEST_ROUNDS // 2) and self._has_lost):
            self._end_spell()

    @property
    def _rate(self) -> float:
        """Tokens per second of one session in this spell."""
        return self.tokens / self.seconds if self.seconds > 0.0 else 0.0

    @property
    def _is_trial(self) -> bool:
        return self.asks is not self.kept

    @property
    def _has_lost(self) -> bool:
        """True for a trial that need not go on."""
        kept = self.rates.get(self.kept, 0.0)
        return self._is_trial and 0.0 < self._rate < CLEARLY * kept

    def _end_spell(self) -> None:
        """Takes the spell's rate and chooses the way of the next one."""
        if self.seconds > 0.0:
            known = self.rates.get(self.asks, self._rate)
            self.rates[self.asks] = known + WEIGHT * (self._rate - known)
            self._choose()
        self.notes, self.tokens, self.seconds = 0, 0, 0.0

    def _choose(self) -> None:
        if self._is_trial:
            self._judge_trial()
            return
        self.spells_left -= 1
        # Rates of other times are no reason to have prompts read.
        has_fallen = self.kept and self.rates.get(False, 0.0) > self.rates[True]
        if self.spells_left <= 0 or has_fallen:
            self.asks = not self.asks

    def _judge_trial(self) -> None:
        trial, kept = self.asks, self.kept
        if self.rates[trial] > self.rates[kept]:
            self.wins += 1
            if self.wins < WINS:
                return
            self.kept, self.stay = trial, FIRST_STAY[trial]
        else:
            longer = 4 if self._has_lost else 2
            self.stay = min(longer * self.stay, LONGEST_STAY[kept])
        self.asks, self.spells_left, self.wins = self.kept, self.stay, 0


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

    def tries(self, session_count: int) -> bool:
        """True where asking is a trial of a network that rests otherwise.

        Args:
            session_count: Sessions that are open, at least 1.
        """
        load = self._load(session_count)
        return load.asks and not load.kept

    def note(
        self,
        session_count: int,
        asked: bool,
        tokens: int,
        seconds: float,
        met_prefill: bool = False,
    ) -> None:
        """Takes one round of one session, from its tree to its next one.

        Args:
            session_count: Sessions that are open, at least 1.
            asked: The network was asked for that tree.
            tokens: That the round committed.
            seconds: That it took, waiting included.
            met_prefill: Its pass held prefill too, which would drown what can be learnt from it.
        """
        load = self._load(session_count)
        if asked is load.asks:  # else it began before this spell
            load.take(tokens, seconds, session_count, met_prefill)

    def _load(self, session_count: int) -> _Load:
        """Loads are alike where their sessions round up to the same power of two.

        One that is new begins as the nearest one that is known does, and soon tries the other way;
        but where fewer sessions let the network rest already, more of them try it as rarely.
        """
        size = (session_count - 1).bit_length()
        if size not in self._loads:
            self._loads[size] = self._begun_as_nearest(size)
        return self._loads[size]

    def _begun_as_nearest(self, size: int) -> _Load:
        nearest = min(self._loads, key=lambda known: abs(known - size), default=None)
        if nearest is None:
            return _Load()
        like = self._loads[nearest]
        if nearest < size and not like.kept:
            return _Load(asks=False, kept=False, stay=like.stay, spells_left=like.stay)
        return _Load(asks=like.kept, kept=like.kept, stay=FIRST_STAY[like.kept])
