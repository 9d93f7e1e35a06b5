"""What a proxy in front of a model, and a listener that browsers can reach, have to do: each line with the tests that
hold the server to it, so that none goes with a test that is renamed or dropped.

F framing of requests, S smuggling, R answers, H what passes on, L connections, B limits, O own routes."""

import importlib
import pathlib
import re
import unittest

import tap

TESTS = pathlib.Path(__file__).parents[1]
HERE = ("fidelity", "framing", "life", "limits", "loopback")

# (line, what holds it to that: (where, promise as a pattern, how many tests at least))
LINES = [
    ("F1 a length beside chunks is refused", ("framing", "refuses length with chunks")),
    ("S1 nothing behind an ambiguous message is passed on",
     ("framing", "nothing behind an ambiguous message is forwarded")),
    ("F2 two lengths, or a list of them, are refused", ("framing", "refuses two lengths|refuses a list of lengths", 2)),
    ("F3 lengths that are no plain numbers are refused", ("framing", "refuses length b.*", 7)),
    ("F4 of the encodings only chunked is known, once", ("framing", "refuses encoding b.*", 6)),
    ("F5 HTTP/1.0 has no chunks", ("framing", "refuses chunks in HTTP/1.0")),
    ("F6 chunks that others may see otherwise are refused, and their request never becomes complete",
     ("framing", "refuses chunk b.*", 8),
     ("unit/test_http_exchange.c", "a_broken_request_never_becomes_a_complete_one")),
    ("F6.8 extensions of chunks are dropped and have a limit",
     ("unit/test_http_body.c", "extensions_and_trailers_have_limits")),
    ("F7 lines end with CR LF; others are refused at once", ("framing", "refuses bare line feeds"),
     ("unit/test_http_head.c", "stops_at_the_first_byte_that_no_head_has")),
    ("F8 lines are not folded", ("framing", "refuses a folded line")),
    ("F9 nothing comes between a name and its colon", ("framing", "refuses a space before the colon")),
    ("F10 a bare CR is refused", ("framing", "refuses a bare CR in a value")),
    ("F11 so is NUL in a value", ("framing", "refuses NUL in a value")),
    ("F12 and in the target", ("framing", "refuses NUL in the target")),
    ("F13 HTTP/1.1 has a Host", ("framing", "refuses no Host in HTTP/1.1")),
    ("F14 and only one", ("framing", "refuses two Hosts"), ("unit/test_http_head.c", "asks_for_one_host")),
    ("F15 names are tokens", ("framing", "refuses a name that is no token"),
     ("unit/test_http_head.c", "names_are_tokens_of_the_standard")),
    ("F16 and not empty", ("framing", "refuses an empty name")),
    ("F17 methods are tokens", ("framing", "refuses a method that is no token")),
    ("F18 a request line has two spaces", ("framing", "refuses two spaces in the request line")),
    ("F19 versions have two digits", ("framing", "refuses version HTTP/1.2x")),
    ("F20 HTTP/2 is not spoken", ("framing", "refuses version HTTP/2.0")),
    ("F21 nor is HTTP/0.9", ("framing", "refuses HTTP/0.9")),
    ("F22 targets have no spaces, no fragment, nothing beyond ASCII",
     ("framing", "refuses a (space|fragment) in the target", 2),
     ("unit/test_http_head.c", "refuses_request_lines_that_are_none")),
    ("F23 CONNECT is refused", ("framing", "refuses CONNECT")),
    ("F24 absolute targets are refused", ("framing", "refuses an absolute target")),
    ("F25 * is for OPTIONS alone", ("framing", r"refuses \* with GET")),
    ("F26 empty lines before a request are skipped and keep nothing alive",
     ("unit/test_http_exchange.c", "passes_requests_and_answers_on_byte_for_byte"),
     ("unit/test_http_limits.c", "empty_lines_do_not_keep_a_connection")),
    ("F27 methods have a length; their letters pass as they are",
     ("unit/test_http_head.c", "refuses_request_lines_that_are_none"),
     ("unit/test_http_exchange.c", "passes_requests_and_answers_on_byte_for_byte")),
    ("F28 any method may have a body", ("fidelity", "a GET with a body is passed on")),
    ("R9 answers that make no sense are a bad gateway", ("framing", "an answer with .* is a bad gateway", 5),
     ("unit/test_http_exchange.c", "an_upstream_that_makes_no_sense_is_a_bad_gateway")),
    ("H1 what belongs to one connection goes no further", ("fidelity", ".* of a request goes no further", 6)),
    ("H1.6 Connection cannot name Host and Content-Length",
     ("unit/test_http_head.c", "refuses_heads_that_can_be_understood_in_two_ways")),
    ("H1.k H4 all else passes, in its order, case and repeats",
     ("fidelity", "other request fields are passed on|order, case and repeats of fields stay", 2)),
    ("H2.0 so with answers", ("fidelity", "an answer's field that Connection names goes no further")),
    ("H2.1 repeated Set-Cookie stay apart", ("fidelity", "repeated Set-Cookie stay apart and in order")),
    ("H2.2 H2.3 empty values and odd bytes stay", ("fidelity", "empty values stay|bytes beyond ASCII stay", 2)),
    ("H2.4 H2.5 Date and Server are the upstream's", ("fidelity", "(Date|Server) is the upstream's.*", 2)),
    ("H2.6 the reason phrase stays", ("fidelity", "the reason phrase stays")),
    ("H3 the target passes byte for byte", ("fidelity", "the target is passed on byte for byte")),
    ("H5 Host passes; requests of our own have the upstream's address", ("fidelity", "Host is passed on"),
     ("unit/test_http_call.c", "calls_the_upstream_itself")),
    ("H6 nothing is added", ("fidelity", "no field is invented")),
    ("H7 unknown methods pass", ("fidelity", "unknown methods are passed on")),
    ("H8 H8b chunks are made anew, trailers never become fields",
     ("fidelity", "a chunked request arrives with its bytes|trailers never become fields", 2)),
    ("H9 H10 a length stays one, both ways", ("fidelity", "a request with a length keeps it"),
     ("unit/test_http_exchange.c", "passes_requests_and_answers_on_byte_for_byte")),
    ("H11 codings, ETag, 304 stay as they are",
     ("unit/test_http_exchange.c", "passes_requests_and_answers_on_byte_for_byte"),
     ("service/test_gateway.py", "requests_and_answers_pass_unchanged")),
    ("H12 redirects pass", ("fidelity", "redirects are passed on, never followed")),
    ("R1 HEAD has a length and no body", ("fidelity", "HEAD keeps the length and has no body")),
    ("R2 204 and 304 have no body", ("fidelity", "(204|304) has no body and the connection goes on", 2)),
    ("R3 R4 103 passes, but not to HTTP/1.0",
     ("fidelity", "103 is passed on to a client of HTTP/1.1|1xx is never sent to a client of HTTP/1.0", 2)),
    ("R5 HTTP/1.0 gets no chunks", ("fidelity", "a client of HTTP/1.0 gets no chunks, then the end")),
    ("R6 a body that ends with its connection is chunked, or cut if that broke",
     ("fidelity", "a body that ends with the connection is passed on to its end"),
     ("fidelity", "a cut answer whose end is the connection's is a reset for a client of HTTP/1.0")),
    ("R7 R8 what was cut never looks complete",
     ("fidelity", "an answer that is cut short never looks complete|no last chunk is invented", 2)),
    ("R10 bytes behind an answer end its connection",
     ("unit/test_http_exchange.c", "bytes_behind_an_answer_end_its_connection")),
    ("R11 so does any sign of life while it is idle",
     ("unit/test_http_exchange.c", "any_sign_of_life_ends_an_idle_connection")),
    ("R12 and the upstream's word", ("unit/test_http_exchange.c", "connections_that_close_are_not_used_again")),
    ("L1 pipelined requests are answered in order", ("life", "pipelined requests are answered in order")),
    ("L2 connections are kept on both sides", ("life", "connections are kept on both sides")),
    ("L3 nothing is sent twice", ("life", "a (POST|GET) whose connection dies is sent once", 2)),
    ("L3.2 but before its first byte, over another connection",
     ("unit/test_http_exchange.c", "a_closed_idle_connection_costs_no_request")),
    ("L4 100 Continue is the upstream's", ("life", "100 Continue comes from the upstream, before the body")),
    ("L5 an early answer passes at once", ("life", "an answer before the end of the upload is passed on at once")),
    ("L6 each line passes when it comes", ("life", "streamed lines arrive when they are sent")),
    ("L7 a client that leaves a stream is noticed; the rest is dropped, or drained within one deadline",
     ("life", "a client that leaves during a stream ends it within a second"),
     ("unit/test_http_limits.c", "draining_has_one_deadline_for_all"),
     ("service/test_gateway.py", "an_answer_whose_client_has_left_is_drained_and_its_turn_kept")),
    ("L8 so is one that leaves before its answer, or in line, which is then never sent",
     ("life", "a client that leaves before any answer is noticed within a second"),
     ("service/test_gateway.py", "who_leaves_the_line_is_never_sent")),
    ("L9 a client that does not read stops the upstream", ("life", "a client that does not read stops the upstream")),
    ("L10 and the other way round", ("life", "an upstream that does not read stops the client")),
    ("L11 a client that has closed its side has left, unless its answer comes soon",
     ("unit/test_http_limits.c", "a_half_closed_client_has_left"),
     ("unit/test_http_limits.c", "a_half_closed_client_waits_for_what_comes_soon")),
    ("L12 who asks for a WebSocket is refused, other offers go no further",
     ("life", "who asks for a WebSocket is refused"),
     ("life", "an offer of TLS is passed over, too, and the body goes on")),
    ("L13 slow clients delay nobody", ("life", "200 half-sent heads keep nobody waiting"),
     ("unit/test_http_patience.c", "an_upload_that_trickles_ends"),
     ("service/test_gateway.py", "an_upload_that_trickles_loses_its_turn")),
    ("L14 the end is orderly", ("limits", "SIGTERM lets an exchange come to its end, and nobody new in")),
    ("L15 without descriptors nothing spins",
     ("unit/test_http_memory.c", "without_descriptors_clients_are_turned_away_and_nothing_spins")),
    ("B1 heads have limits", ("life", "a (field|target) of 200 kB is refused|5000 fields are refused", 3),
     ("unit/test_http_head.c", "keeps_to_its_limits")),
    ("B2 and a time", ("life", "a head that is never complete ends its connection, however it trickles")),
    ("B2b idle connections are closed without a word",
     ("unit/test_http_limits.c", "an_idle_connection_is_closed_without_a_word")),
    ("B2c bodies that stall are given up", ("unit/test_http_limits.c", "a_body_that_stalls_is_given_up")),
    ("B3 B4 crowds keep nobody waiting", ("life", "200 .* keep nobody waiting", 2)),
    ("B5 connections have a number, in all and of one peer",
     ("limits", "connections beyond the limit are closed, and room is found again"),
     ("unit/test_http_limits.c", "connections_beyond_the_limit_are_closed"),
     ("service/test_gateway.py", "one_address_has_as_many_connections_as_it_may_and_others_have_theirs")),
    ("B6 the line has an end, and waiting a time", ("unit/test_admission.c", "the_line_has_an_end"),
     ("unit/test_admission.c", "waiting_has_an_end")),
    ("B7 the upstream has its times",
     ("unit/test_http_limits.c", "an_upstream_that_(says_nothing_is_late|stalls_is_cut)", 2),
     ("unit/test_http_limits.c", "an_upstream_that_is_not_reached_in_time_was_sent_nothing")),
    ("B8 bodies that pass have no limit, others have",
     ("unit/test_http_limits.c", "large_bodies_arrive_whole_in_both_directions"),
     ("loopback", "a body beyond the limit is 413"),
     ("loopback", "so is one that only says so, of which nothing is waited for")),
    ("O0 a good request is answered", ("loopback", "a good request is answered")),
    ("O1 Host is a name of ours, which is looked at first", ("loopback", ".* is a name of ours", 4),
     ("loopback", "Host '.*' is not ours", 9), ("loopback", "Host is looked at before the credential")),
    ("O2 other pages are refused, whatever they ask", ("loopback", ".* from .* is refused", 15),
     ("loopback", "our own page may ask"), ("loopback", "no page is ever given leave")),
    ("O3 so are other sites, and a cookie needs its second secret", ("loopback", "a fetch from another site may not"),
     ("studio/test_api.py", "a_session_is_a_cookie_and_a_second_secret")),
    ("O4 the credential is right, there once, in its field, and not guessed", ("loopback", "wrong token . is 401", 4),
     ("loopback", "no credential is 401 and says which kind is wanted"), ("loopback", "two credentials are none"),
     ("loopback", "a credential (in the query is none|of another kind is 401)", 2),
     ("loopback", "wrong credentials are slowed down, the right one is not"),
     ("unit/test_http_own.c", "only_the_same_token_is_the_same")),
    ("O5 bodies are JSON that says so, and strict", ("loopback", "a body of type .* is 415", 4),
     ("loopback", "a compressed body is 415"), ("loopback", "JSON that says UTF-8 is taken"),
     ("loopback", "body '.*' is a problem", 9)),
    ("O6 the upstream's clients see none of the owner's routes, and Host and Origin pass",
     ("service/test_gateway.py", "the_owners_routes_are_not_at_the_clients_door"),
     ("service/test_gateway.py", "requests_and_answers_pass_unchanged")),
    ("O7 answers are not guessed at nor stored", ("loopback", "answers .*", 2)),
    ("O8 streams of events go on by the last id, and end", ("studio/test_api.py", "a_watcher_goes_on_by_the_last_id"),
     ("studio/test_api.py", "the_stream_of_a_job_ends_with_it")),
    ("O9 a path has one form", ("loopback", "path .* is no other way to a route", 8),
     ("loopback", "an unknown route is 404"), ("loopback", "another method is 405 with those that are allowed")),
]


def promises_of(where):
    """What the tests of a script or a program say that they hold."""
    if where in HERE:
        suite = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(f"test_{where}"))
        return [test.shortDescription() for group in suite for test in group]
    text = (TESTS / where).read_text()
    if where.endswith(".c"):
        return re.findall(r"^ +[A-Za-z_]+\((\w+)\),$", text, re.MULTILINE)
    return re.findall(r'def test_\w+\(self\):\n +"""(.*)"""', text) + re.findall(r"def test_(\w+)\(self\)", text)


class Checklist(unittest.TestCase):
    def check(self, proofs):
        for where, pattern, *least in proofs:
            found = [promise for promise in promises_of(where) if re.fullmatch(pattern, promise)]
            self.assertGreaterEqual(len(found), *(least or [1]), f"{where}: {pattern}")


for number, (line, *proofs) in enumerate(LINES):

    def check_line(self, proofs=proofs):
        self.check(proofs)

    check_line.__doc__ = line
    setattr(Checklist, f"test_{number:03}", check_line)


if __name__ == "__main__":
    tap.main()
