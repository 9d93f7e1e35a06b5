"""Reference values of the beta schedule: table entries round((M - 1) * quantile(1 - i / N)) of the beta distribution with
both parameters 0.6, by mpmath at 40 digits.

python make_beta.py > beta.json
"""

import json

from mpmath import betainc, findroot, mp, mpf, nint

mp.dps = 40
A = mpf("0.6")


def quantile(p):
    if p == 1:
        return mpf(1)
    return findroot(lambda x: betainc(A, A, 0, x, regularized=True) - p, (mpf(10) ** -12, 1 - mpf(10) ** -12),
                    solver="anderson", tol=1e-24)


rows = []
for steps in (1, 2, 4, 8, 9, 20, 52):
    points = [quantile(1 - mpf(i) / steps) for i in range(steps)]
    for entries in (1000, 10000):
        rows.append({"steps": steps, "entries": entries, "index": [int(nint((entries - 1) * x)) for x in points]})
print('{\n "rows": [\n' + ",\n".join("  " + json.dumps(r) for r in rows) + "\n ]\n}")
