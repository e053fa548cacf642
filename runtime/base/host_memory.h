/* host_memory.h - how much memory of the host this process may use. */
#ifndef YK_BASE_HOST_MEMORY_H
#define YK_BASE_HOST_MEMORY_H

#include <stdint.h>

/* yk_host_memory_bytes - the physical memory, or less if a control group of the process has a limit. Thread: any. */
int64_t yk_host_memory_bytes(void);

/* yk_host_memory_limit - the smallest limit of the control groups of a process, INT64_MAX for none. groups: the text of
 *   /proc/PID/cgroup; root: where control groups are mounted, /sys/fs/cgroup. Both versions of control groups are
 *   read; a file that cannot be read limits nothing. */
int64_t yk_host_memory_limit(const char *groups, const char *root);

#endif
