"""pyACL, CANN's Python interface of the runtime: the part of it that is emulated is `acl.rt`."""
