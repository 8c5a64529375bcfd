"""Features between the engine and the drafters: asked for, checked, handed over, missed.

Knows streams and rows, not what features are.
"""

from collections.abc import Mapping

from draft_service.drafters.drafter import Drafter
from draft_service.drafting import Drafting
from draft_service.feature_intake import FeatureIntake
from outrider.protocol.features import FeatureLayout
from outrider.protocol.messages import FeatureRows

MAX_LOSSES = 3  # each costs a prefill; a stream that loses more goes on without features


class StreamFeatures:
    """Features of all streams.

    Args:
        drafters: Draft methods by name.
        layout: Features that the loaded heads read; None where no head is loaded.
    """

    def __init__(self, drafters: Mapping[str, Drafter], layout: FeatureLayout | None) -> None:
        self._drafters = drafters
        self._layout = layout

    def expect(self, drafting: Drafting) -> int | None:
        """Prepares for a placement.

        Returns:
            First row whose features are to be asked for; None where none are.
        """
        first_row = self._drafters[drafting.method].features_from(drafting.session_id)
        if first_row is None or self._layout is None:
            drafting.intake = None
            return None
        first_row = min(first_row, drafting.session.committed_rows)
        drafting.intake = FeatureIntake(self._layout.row_size, first_row)
        return first_row

    def take(self, drafting: Drafting, rows: FeatureRows) -> bool:
        """Takes what has arrived; False where it is stale or malformed, and dropped."""
        session, intake = drafting.session, drafting.intake
        if intake is None or rows.epoch != session.epoch:
            return False
        is_taken = intake.take(rows, session.possible_rows)
        self.hand_over(drafting)
        return is_taken

    def hand_over(self, drafting: Drafting) -> None:
        """Gives the drafter what is committed by now."""
        if drafting.intake is not None:
            for rows in drafting.intake.due(drafting.session.committed_rows):
                self._drafters[drafting.method].take_features(rows)

    def lost(self, drafting: Drafting, can_repeat: bool) -> int | None:
        """Decides what becomes of a stream that lacks features of committed rows.

        Args:
            drafting: The stream.
            can_repeat: Its verify worker would take a new placement.

        Returns:
            First row to ask for in a new placement; None where the stream goes on as it is,
            without features.
        """
        drafting.feature_losses += 1
        first_row = self.expect(drafting)
        if can_repeat and drafting.feature_losses <= MAX_LOSSES:
            return first_row
        drafting.intake = None
        return None
