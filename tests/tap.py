"""Runs the unittest cases of a script and prints them as TAP, so that scripts/run-tests counts each of them.

A test's first docstring line, or its name in words, is the promise that it keeps. Use: `import tap` … `tap.main()`.
A script of which nothing could be run does not end as if it had succeeded.
"""

import faulthandler
import signal
import sys
import traceback
import unittest


NOTHING_WAS_RUN = 77  # an exit status that Meson shows as a skip


class TapResult(unittest.TestResult):
    failed_in_parts = None

    def say(self, verdict, test, remark=""):
        promise = test.shortDescription() or test.id().split(".")[-1].removeprefix("test_")
        print(f"{verdict} {self.testsRun} - {promise}{remark}", flush=True)

    def addSuccess(self, test):
        self.say("ok", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say("ok", test, f" # SKIP {reason}")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.say("not ok", test)
        self.explain(err)

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is None:
            return
        if test is not self.failed_in_parts:  # it is one case, whatever number of its parts fail
            self.failed_in_parts = test
            self.say("not ok", test)
        print(f"# {subtest.id()}")
        self.explain(err)

    def explain(self, err):
        for line in "".join(traceback.format_exception(*err)).rstrip().split("\n"):
            print(f"# {line}", flush=True)


def main():
    faulthandler.register(signal.SIGTERM, chain=True)  # whoever is out of time says where it waits
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    print(f"1..{suite.countTestCases()}", flush=True)
    result = TapResult()
    suite.run(result)
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(NOTHING_WAS_RUN if len(result.skipped) == result.testsRun else 0)
