"""Row-major copies of elements at strides; only compiled modules use this one."""
