"""kill -9 at twenty random moments: the file is never there and wrong, and each call goes on with what is there."""

import random
import subprocess
import time

import files
import tap
from fetching import Fetching
from kuno import HANG_SECONDS
from server import Server

KILLS = 20
MIB = 1 << 20


class Kills(Fetching):
    def test_kills_at_random_moments_never_leave_a_wrong_file(self):
        chance = random.Random(int(time.time()))

        def behave(_, reply):
            reply.bytes_per_second = MIB // 4  # far less in all than there is
        killed = 0
        with Server("huge", behave) as server:
            for _ in range(KILLS):
                process = self.start(*self.arguments("huge", server), stderr=subprocess.DEVNULL)
                try:
                    process.wait(chance.uniform(0.02, 2.5))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait(HANG_SECONDS)
                    killed += 1
                self.is_right("huge")
            server.behave, asked = None, len(server.requests)
            result = self.fetch("huge", server)
            self.assert_fetched("huge", result)
            self.assertLess(server.asked_bytes(asked), files.BYTES["huge"])
        self.assertEqual(killed, KILLS)


tap.main()
