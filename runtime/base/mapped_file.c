/* A file is mapped directly after a page that describes it:
 *
 *   | yk_mapped_file | bytes of the file ... |
 *
 * The handler takes the map in which an access failed, walks back over adjacent read-only maps, and finds the page
 * there. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "base/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define MAGIC UINT64_C(0x3a656c6966706d79)

struct yk_mapped_file {
  uint64_t magic;
  const yk_mapped_file *self; /* distinguishes the page from a copy of it */
  char *path;                 /* owned */
  size_t n_bytes, page_bytes;
  int fd;
  atomic_bool is_broken;
};

static uintptr_t end_of(const yk_mapped_file *file)
{
  size_t page = file->page_bytes;
  return (uintptr_t)file + page + (file->n_bytes + page - 1) / page * page;
}

/* ---- The handler: async-signal-safe functions only --------------------------------------------------------------- */

/* The used part of a line of /proc/self/maps: "begin-end rw-p offset major:minor inode". */
typedef struct map_line {
  uintptr_t begin, end;
  bool is_writable;
} map_line;

typedef struct map_table {
  int fd;
  size_t n, at;
  char text[4096];
} map_table;

static int next_byte(map_table *table)
{
  if (table->at == table->n) {
    ssize_t n = read(table->fd, table->text, sizeof table->text);
    if (n <= 0) return -1;
    table->n = (size_t)n;
    table->at = 0;
  }
  return (unsigned char)table->text[table->at++];
}

/* Read a hexadecimal number and the byte after it. */
static uintptr_t next_number(map_table *table)
{
  uintptr_t number = 0;
  for (;;) {
    int c = next_byte(table);
    if (c >= '0' && c <= '9')
      number = number << 4 | (uintptr_t)(c - '0');
    else if (c >= 'a' && c <= 'f')
      number = number << 4 | (uintptr_t)(c - 'a' + 10);
    else
      return number;
  }
}

static bool next_line(map_table *table, map_line *line)
{
  line->begin = next_number(table);
  line->end = next_number(table);
  if (next_byte(table) < 0) return false; /* skips the read permission */
  line->is_writable = next_byte(table) == 'w';
  for (int c = next_byte(table); c != '\n'; c = next_byte(table))
    if (c < 0) return false;
  return true;
}

/* The file that contains an address, or NULL. */
static yk_mapped_file *file_at(uintptr_t address)
{
  map_table table = {.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
  map_line line, before = {0};
  uintptr_t begin = 0; /* start of a file's bytes, if its page precedes them */
  yk_mapped_file *found = NULL;
  if (table.fd < 0) return NULL;
  while (!found && next_line(&table, &line) && line.begin <= address) {
    bool follows = line.begin == before.end;
    if (!line.is_writable && (!follows || before.is_writable)) begin = follows ? line.begin : 0;
    if (address < line.end && begin) {
      yk_mapped_file *file = (yk_mapped_file *)(begin - (uintptr_t)sysconf(_SC_PAGESIZE));
      bool is_ours = file->magic == MAGIC && file->self == file;
      if (is_ours && address < end_of(file)) found = file;
      break;
    }
    before = line;
  }
  close(table.fd);
  return found;
}

/* Map zeros from the page of the access on: all bytes after the new end of a file are lost too. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
  (void)context;
  int kept = errno;
  uintptr_t address = (uintptr_t)info->si_addr;
  yk_mapped_file *file = info->si_code == BUS_ADRERR ? file_at(address) : NULL;
  uintptr_t page = file ? address / file->page_bytes * file->page_bytes : 0;
  if (file) atomic_store(&file->is_broken, true);
  if (file && mmap((void *)page, end_of(file) - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
                  MAP_FAILED) {
    errno = kept;
    return;
  }
  signal(number, SIG_DFL);
  raise(number); /* takes effect once the handler has returned */
  errno = kept;
}

static void install(void)
{
  struct sigaction now, ours = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
  sigemptyset(&ours.sa_mask);
  bool is_free = sigaction(SIGBUS, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL;
  if (is_free) sigaction(SIGBUS, &ours, NULL);
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

/* Reserve address space for the page and the file, and map both into it. */
static yk_status map(const char *path, int fd, size_t n_bytes, yk_mapped_file **out, yk_err *err)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE), size = page + n_bytes;
  char *base = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return yk_err_set(err, YK_E_IO, "%s: mmap: %s", path, strerror(errno));
  bool failed = mprotect(base, page, PROT_READ | PROT_WRITE) != 0;
  failed =
      failed || (n_bytes > 0 && mmap(base + page, n_bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED);
  if (failed) {
    yk_err_set(err, YK_E_IO, "%s: mmap: %s", path, strerror(errno));
    munmap(base, size);
    return YK_E_IO;
  }
  yk_mapped_file *file = (yk_mapped_file *)base;
  file->magic = MAGIC;
  file->self = file;
  file->n_bytes = n_bytes;
  file->page_bytes = page;
  file->fd = fd;
  *out = file;
  return YK_OK;
}

yk_status yk_mapped_file_open(const char *path, yk_mapped_file **out, yk_err *err)
{
  int fd;
  size_t n_bytes;
  char *copy = strdup(path);
  if (!copy) return yk_err_set(err, YK_E_NOMEM, "%s: no memory", path);
  yk_status status = yk_file_open(path, &fd, &n_bytes, err);
  if (status != YK_OK) {
    free(copy);
    return status;
  }
  status = map(path, fd, n_bytes, out, err);
  if (status != YK_OK) {
    close(fd);
    free(copy);
    return status;
  }
  (*out)->path = copy;
  install();
  return YK_OK;
}

const void *yk_mapped_file_bytes(const yk_mapped_file *file)
{
  return (const char *)file + file->page_bytes;
}

size_t yk_mapped_file_size(const yk_mapped_file *file)
{
  return file->n_bytes;
}

/* A shrunken file counts as damaged even if no access failed: the system may have read past the end, in a write of the
 * file's bytes. */
yk_status yk_mapped_file_settle(const yk_mapped_file *file, yk_status status, yk_err *err)
{
  struct stat info;
  if (!file) return status;
  bool is_shorter = fstat(file->fd, &info) == 0 && (uint64_t)info.st_size < file->n_bytes;
  if (!atomic_load(&file->is_broken) && !is_shorter) return status;
  if (err) yk_err_clear(err);
  return yk_err_set(err, YK_E_IO, "%s: the file was truncated or became unreadable while it was read", file->path);
}

void yk_mapped_file_close(yk_mapped_file *file)
{
  if (!file) return;
  close(file->fd);
  free(file->path);
  munmap(file, file->page_bytes + file->n_bytes);
}
