"""The planned growth of a Ceph cluster, compared with Ceph's own tools and with a real cluster."""
