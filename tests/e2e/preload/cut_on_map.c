/* A library to preload: when a file whose name ends with YOKE_CUT_NAME has been mapped, it is cut to YOKE_CUT_BYTES;
 * with YOKE_CUT_LATE, only when the program then starts a thread. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void *(*map_function)(void *, size_t, int, int, int, off_t);
typedef int (*thread_function)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static char path[4096]; /* of the mapped file; "": none yet */

static void cut(void)
{
  const char *bytes = getenv("YOKE_CUT_BYTES");
  if (path[0] && bytes && truncate(path, strtol(bytes, NULL, 10)) != 0) abort();
}

void *mmap(void *address, size_t n_bytes, int protection, int flags, int fd, off_t offset)
{
  map_function next;
  *(void **)&next = dlsym(RTLD_NEXT, "mmap");
  void *map = next(address, n_bytes, protection, flags, fd, offset);
  const char *name = getenv("YOKE_CUT_NAME");
  char link[64], found[sizeof path];
  if (fd < 0 || map == MAP_FAILED || !name) return map;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, found, sizeof found - 1);
  if (n < (ssize_t)strlen(name)) return map;
  found[n] = '\0';
  if (strcmp(found + n - strlen(name), name) != 0) return map;
  memcpy(path, found, (size_t)n + 1);
  if (!getenv("YOKE_CUT_LATE")) cut();
  return map;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
  thread_function next;
  *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
  if (getenv("YOKE_CUT_LATE")) cut();
  return next(thread, attributes, start, argument);
}
