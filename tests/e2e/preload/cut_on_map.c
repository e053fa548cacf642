/* A library to preload: once a file whose name ends with YOKE_CUT_NAME has been mapped, it is cut to YOKE_CUT_BYTES. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void *(*map_function)(void *, size_t, int, int, int, off_t);

void *mmap(void *address, size_t n_bytes, int protection, int flags, int fd, off_t offset)
{
  map_function next;
  *(void **)&next = dlsym(RTLD_NEXT, "mmap");
  void *map = next(address, n_bytes, protection, flags, fd, offset);
  const char *name = getenv("YOKE_CUT_NAME"), *bytes = getenv("YOKE_CUT_BYTES");
  char link[64], path[4096];
  if (fd < 0 || map == MAP_FAILED || !name || !bytes) return map;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n < (ssize_t)strlen(name)) return map;
  path[n] = '\0';
  if (strcmp(path + n - strlen(name), name) == 0 && truncate(path, strtol(bytes, NULL, 10)) != 0) abort();
  return map;
}
