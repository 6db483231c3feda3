"""The sets of measurements that `opplab verify silicon` knows, by kind of machine."""
