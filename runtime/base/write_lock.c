#define _GNU_SOURCE /* flock, O_DIRECTORY */
#include "base/write_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

bool yk_write_lock_try(int fd)
{
  int failed;
  do failed = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  while (failed == EINTR);
  return failed != EWOULDBLOCK;
}

bool yk_write_lock_is_at(const char *path, int fd)
{
  struct stat there, here;
  return stat(path, &there) == 0 && fstat(fd, &here) == 0 && there.st_dev == here.st_dev && there.st_ino == here.st_ino;
}

yk_status yk_write_lock_dir(const char *dir, int *fd, yk_err *err)
{
  int opened = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return yk_err_set(err, YK_E_IO, "%s: %s", dir, strerror(errno));
  if (yk_write_lock_try(opened) && yk_write_lock_is_at(dir, opened)) {
    *fd = opened;
    return YK_OK;
  }
  close(opened);
  return yk_err_set(err, YK_E_IO, "%s: another run is writing it", dir);
}
