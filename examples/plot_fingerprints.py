"""
Similar molecules: searching existing bits
==========================================

Fingerprints of molecules are already bits, so they need no encoder. Chemists compare
them by Tanimoto similarity, as `JaccardNeighbors` does. This example shows how its
ranking differs from that of the Hamming distance.
"""

# %%
# Fingerprints
# ------------
#
# To search fingerprints of a toolkit, such as Morgan fingerprints, pack them with
# ``np.packbits(rows_of_0_and_1, axis=1)``. This example needs no toolkit. Its molecules
# are lines of SMILES: 18 cores, each combined with all pairs of 25 groups. Each
# substring of three to five letters sets one of 1024 bits. (Vidal, Thormann and Pons,
# 2005, compare molecules by counts of substrings of four letters.) The combinations are
# invented.

import zlib
from itertools import product

import matplotlib.pyplot as plt
import numpy as np

from skhash import HammingNeighbors, JaccardNeighbors

CORES = """
c1ccc({})cc1{} c1ccnc({})c1{} c1ccc2c(c1)c({})c{}[nH]2 C1CCN({})CC1{} C1CN({})CCN1{}
O=C(N{})c1ccccc1{} O=C({})Oc1ccccc1{} CC(C)(C{})c1ccc(O{})cc1 c1nc({})c2ncn{}c2n1
O=S(=O)(N{})c1ccc({})cc1 c1csc({})c1{} C1CC({})CCC1{} C1COC({})CN1{} N1C(=O)C{}SC1={}
Cn1cnc2c1c(=O)n({})c(=O)n2{} c1ccc2ncc({})cc2c1{} C({})Cc1ccc(O)c(O)c1{} OC{}C({})N
""".split()
GROUPS = """
C CC CCC C(C)C C(C)(C)C O OC OCC N NC N(C)C NC(C)=O F Cl Br C#N C(F)(F)F C(=O)O C(=O)OC
C(N)=O S(C)(=O)=O CCO CCN c3ccccc3 c3ccncc3
""".split()
molecules = [core.format(*pair) for core in CORES for pair in product(GROUPS, repeat=2)]
N_BITS = 1024
bits = np.zeros((len(molecules), N_BITS), dtype=np.uint8)
for row, smiles in zip(bits, molecules, strict=True):
    for width in (3, 4, 5):
        for start in range(len(smiles) - width + 1):
            row[zlib.crc32(smiles[start : start + width].encode()) % N_BITS] = 1
packed = np.packbits(bits, axis=1)
sizes = np.bitwise_count(packed).sum(axis=1, dtype=np.int64)
print(f"{len(packed):,} molecules, {sizes.min()} to {sizes.max()} bits set")

# %%
# Nearest by Hamming distance
# ---------------------------

index = HammingNeighbors(packed=True).fit(packed)
query = molecules.index("O=C(NCCO)c1ccccc1C(N)=O")
distances, positions = index.kneighbors(packed[[query]], n_neighbors=6)
print(molecules[query])
for distance, position in zip(distances[0], positions[0], strict=True):
    print(f"  {distance:2d} bits differ: {molecules[position]}")

# %%
# Nearest by Tanimoto similarity
# ------------------------------
#
# If a query with :math:`a` bits and a molecule with :math:`b` bits share :math:`c`
# bits, their Hamming distance is :math:`h = a + b - 2c`, and their Tanimoto similarity
# is :math:`T = c / (a + b - c)`. The Hamming distance counts the bits that differ. The
# similarity is the share of the bits set in either that are set in both. Small
# molecules have few bits that can differ, so by Hamming distance they are near
# everything. The distances of `JaccardNeighbors` are :math:`1 - T`.

index = JaccardNeighbors(packed=True).fit(packed)
distances, positions = index.kneighbors(packed[[query]], n_neighbors=6)
for distance, position in zip(distances[0], positions[0], strict=True):
    print(f"  {1 - distance:.2f}: {molecules[position]}")

# %%
# All molecules, by both measures
# -------------------------------
#
# For molecules that have little in common with the query, the Hamming distance depends
# mostly on their size. The similarity bounds the Hamming distance: because
# :math:`c \le a`,
#
# .. math:: h = (a + b) \frac{1 - T}{1 + T} \le a \frac{1 - T}{T} .

everything = index.kneighbors(packed[[query]], len(packed))
similarities = 1 - everything[0][0][np.argsort(everything[1][0])]
distances = np.bitwise_count(packed ^ packed[query]).sum(axis=1)
figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
dots = ax.scatter(distances, similarities, c=sizes, s=5, cmap="viridis")
ts = np.linspace(0.2, 1, 200)
ax.plot(sizes[query] * (1 - ts) / ts, ts, color="#d95f02")
where = sizes[query] * 0.6 / 0.4 + 3, 0.42
ax.text(*where, "bound on the Hamming distance", color="#d95f02")
ax.set(xlabel="bits that differ from the query", ylabel="Tanimoto similarity")
ax.set_xlim(-1, distances.max() + 2)
ax.spines[["top", "right"]].set_visible(False)
figure.colorbar(dots, label="bits of the molecule")
plt.show()
