"""Agreement between the ranks of torch.distributed: common boundaries and pauses of a gang."""
