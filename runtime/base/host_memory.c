#include "base/host_memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"

enum { PATH_BYTES = 4096 };

/* The number in a file, INT64_MAX for "max" and for a file that cannot be read. */
static int64_t read_limit(const char *path)
{
  char text[32] = "", *end;
  FILE *file = fopen(path, "re");
  if (!file) return INT64_MAX;
  if (!fgets(text, sizeof text, file)) text[0] = '\0';
  fclose(file);
  errno = 0;
  long long limit = strtoll(text, &end, 10);
  return end == text || errno || limit <= 0 ? INT64_MAX : limit;
}

/* The smallest limit of a group and of those around it. path is cut. In a container the path may be the host's, which
 * is not mounted: then only the root's file exists. */
static int64_t limit_of(const char *root, char *path, const char *name)
{
  int64_t limit = INT64_MAX;
  for (;;) {
    char file[2 * PATH_BYTES];
    snprintf(file, sizeof file, "%s%s/%s", root, path, name);
    limit = yk_min_i64(limit, read_limit(file));
    char *slash = strrchr(path, '/');
    if (!slash) return limit;
    *slash = '\0';
  }
}

int64_t yk_host_memory_limit(const char *groups, const char *root)
{
  int64_t limit = INT64_MAX;
  for (const char *line = groups; *line;) {
    char path[PATH_BYTES], of_memory[PATH_BYTES];
    size_t n = strcspn(line, "\n");
    const char *controllers = memchr(line, ':', n);
    const char *place = controllers ? memchr(controllers + 1, ':', n - (size_t)(controllers + 1 - line)) : NULL;
    if (place && n - (size_t)(place + 1 - line) < sizeof path) {
      snprintf(path, sizeof path, "%.*s", (int)(n - (size_t)(place + 1 - line)), place + 1);
      snprintf(of_memory, sizeof of_memory, "%s/memory", root);
      if (place == controllers + 1)
        limit = yk_min_i64(limit, limit_of(root, path, "memory.max"));
      else if (strncmp(controllers, ":memory:", 8) == 0)
        limit = yk_min_i64(limit, limit_of(of_memory, path, "memory.limit_in_bytes"));
    }
    line += n + (line[n] == '\n');
  }
  return limit;
}

int64_t yk_host_memory_bytes(void)
{
  int64_t bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  char groups[PATH_BYTES];
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (!file) return bytes;
  size_t n = fread(groups, 1, sizeof groups - 1, file);
  fclose(file);
  groups[n] = '\0';
  return yk_min_i64(bytes, yk_host_memory_limit(groups, "/sys/fs/cgroup"));
}
