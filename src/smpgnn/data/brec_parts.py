"""The categories of BREC and their numbers of pairs, in its order. Needs no torch."""

BREC = {
    "Basic": 60,
    "Regular": 100,
    "Extension": 100,
    "CFI": 100,
    "4-Vertex": 20,
    "Distance-Regular": 20,
}
