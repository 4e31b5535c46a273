"""The cluster: who is a member, who owns what, and who leads."""
