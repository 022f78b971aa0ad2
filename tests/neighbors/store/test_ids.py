"""Ids that are strings are kept in UTF-8, which nobody sees."""

import numpy as np
import pytest
from cases import each, memory_below

import skhash
from skhash import HammingNeighbors
from skhash.neighbors.store.ids import IdLookup, to_bytes, to_strings

IDS = ["b", "", "ab", "ä", "zz", "日本", "\U0001f600", "\ud800", "a b", "\x7f", "Ã¤"]


@each("ids", [IDS, IDS[:3], ["x" * 40, "y"], []])
@each("order", ["=", ">"])
def test_strings_sort_and_compare_as_their_bytes(ids, order):
    ids = np.array(ids, dtype=str)
    given = ids.astype(ids.dtype.newbyteorder(order))
    kept = to_bytes(np.repeat(given, 2)[::2])  # not in one piece
    assert kept.tolist() == [one.encode("utf-8", "surrogatepass") for one in ids]
    np.testing.assert_array_equal(to_strings(kept), ids)
    np.testing.assert_array_equal(to_strings(np.sort(kept)), np.sort(ids))
    np.testing.assert_array_equal(to_strings(kept.reshape(-1, 1)), ids.reshape(-1, 1))


def test_the_known_ids_are_not_copied_for_a_longer_one():
    ids = to_bytes(np.arange(10**5).astype("U5"))
    lookup = IdLookup().add(ids, np.arange(10**5), None)
    asked = to_bytes(np.array(["99999", "99999x", "9999", "999999", "", "5"]))
    assert lookup.find(asked, None).tolist() == [99999, -1, 9999, -1, -1, 5]
    with memory_below(10**4):
        lookup.find(asked, None)


@pytest.mark.parametrize("mmap", [False, True])
def test_all_that_takes_or_gives_ids(tmp_path, mmap):
    codes = np.arange(len(IDS), dtype=np.uint8)[:, None]
    index = HammingNeighbors(1, packed=True).fit(codes[:5], ids=IDS[:5])
    index.partial_fit(codes[5:], ids=np.array(IDS[5:]))
    index.save(tmp_path / "index")
    for one in (index, skhash.load(tmp_path / "index", mmap=mmap)):
        assert one.ids_.tolist() == IDS
        found = one.kneighbors(codes, return_distance=False, return_ids=True)
        assert found[:, 0].tolist() == IDS
        found = one.kneighbors(codes[:1], ids=["日本"], return_ids=True)
        assert found[1].tolist() == [["日本"]]
        found = one.radius_neighbors(codes[:1], 8, exclude=IDS[1:], return_ids=True)
        assert found[1][0].tolist() == ["b"]
        with pytest.raises(ValueError, match="with the id '本日'"):
            one.remove(["日本", "本日"])
        with pytest.raises(ValueError, match="the id 'ä' is already in the index"):
            one.partial_fit(codes[:1], ids=["ä"])
        with pytest.raises(ValueError, match="integers, but these|strings, but these"):
            one.remove([3])
        with pytest.raises(ValueError, match="dtype .S1"):
            one.remove(np.array([b"b"]))
        one.remove(["ä"]).compact().partial_fit(codes[3:4], ids=["ä"])
        assert one.ids_.tolist() == [*IDS[:3], *IDS[4:], "ä"]


def test_characters_of_ascii_take_a_byte():
    """One in the column, and one in the lookup, with a position."""
    codes = np.zeros((1000, 8), dtype=np.uint8)
    ids = [f"{number:036}" for number in range(1000)]
    sizes = [
        HammingNeighbors(packed=True).fit(codes, ids=x).nbytes_ for x in (None, ids)
    ]
    assert sizes[1] - sizes[0] == 1000 * (36 + 36 + 8)
