"""What several families of methods compute with: projections, rotations, scales."""
