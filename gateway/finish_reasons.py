"""Why an answer ended, in the words that every API and every span says it with."""

from outrider.v1 import decoding_pb2

FINISH_REASON_NAMES = {
    decoding_pb2.FINISH_REASON_STOP: "stop",
    decoding_pb2.FINISH_REASON_LENGTH: "length",
}
