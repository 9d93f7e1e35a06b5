"""What the client programs in Python share. Each says what came of a step in one line of JSON: ["step", result]."""

import json


def tell(step, result):
    print(json.dumps([step, result], default=lambda thing: thing.model_dump(mode="json")), flush=True)


def error(kind, function, *args, **named):
    """The class and text of the error that has to come."""
    try:
        function(*args, **named)
    except kind as failure:
        return [type(failure).__name__, failure.status_code, str(failure)]
    return "no error"
