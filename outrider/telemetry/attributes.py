"""Names of span attributes: the GenAI conventions' where one exists, `outrider.` elsewhere.

Our own constants, because the GenAI conventions are still moving: a rename there is one line here.
Times are microseconds, those of the conventions seconds; counts are of one span's own round, step
or request.
"""

# Of a request.
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
REQUEST_TEMPERATURE = "gen_ai.request.temperature"
REQUEST_TOP_P = "gen_ai.request.top_p"
REQUEST_TOP_K = "gen_ai.request.top_k"
REQUEST_SEED = "gen_ai.request.seed"
OPERATION_NAME = "gen_ai.operation.name"
PROVIDER_NAME = "gen_ai.provider.name"
CHOICE_COUNT = "gen_ai.request.choice.count"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"

# What these may be.
CHAT = "chat"
TEXT_COMPLETION = "text_completion"
PROVIDER = "outrider"

# Of a session, on every process.
SESSION_ID = "outrider.session.id"
EPOCH = "outrider.session.epoch"
METHOD = "outrider.method"
ROUNDS = "outrider.rounds"

# Of a round.
ROUND = "outrider.round"
DRAFTED = "outrider.drafted"
ACCEPTED = "outrider.accepted"
COMMITTED = "outrider.committed"
DRAFT_US = "outrider.draft_us"
WIRE_US = "outrider.wire_us"
QUEUE_US = "outrider.queue_us"
VERIFY_US = "outrider.verify_us"

# Of a verify step.
BATCH_ROWS = "outrider.batch.rows"
BATCH_SESSIONS = "outrider.batch.sessions"
