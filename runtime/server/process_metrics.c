#include "server/process_metrics.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

typedef struct process_state {
  double cpu_s;
  unsigned long long start_ticks; /* since boot */
  unsigned long virtual_bytes;
  long resident_pages;
} process_state;

static bool read_state(process_state *out)
{
  char text[1024];
  FILE *file = fopen("/proc/self/stat", "re");
  size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
  if (file) fclose(file);
  text[n] = '\0';
  const char *behind = strrchr(text, ')'); /* end of the program's name, which may contain any character */
  unsigned long user_ticks, system_ticks;
  if (!behind ||
      sscanf(behind + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d %llu %lu %ld",
             &user_ticks, &system_ticks, &out->start_ticks, &out->virtual_bytes, &out->resident_pages) != 5)
    return false;
  out->cpu_s = (double)(user_ticks + system_ticks) / (double)sysconf(_SC_CLK_TCK);
  return true;
}

static double clock_s(clockid_t clock)
{
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double yk_process_start_s(void)
{
  process_state state;
  if (!read_state(&state)) return 0;
  return clock_s(CLOCK_REALTIME) - clock_s(CLOCK_BOOTTIME) + (double)state.start_ticks / (double)sysconf(_SC_CLK_TCK);
}

/* Without the descriptor of the directory itself; -1 if /proc does not list them. */
static int count_descriptors(void)
{
  DIR *folder = opendir("/proc/self/fd");
  if (!folder) return -1;
  int n = -1;
  for (const struct dirent *entry; (entry = readdir(folder));) n += entry->d_name[0] != '.';
  closedir(folder);
  return n;
}

static void single(yk_strbuf *out, const char *name, const char *type, const char *help, double value)
{
  yk_strbuf_append_fmt(out, "# HELP process_%s %s\n# TYPE process_%s %s\nprocess_%s %.17g\n", name, help, name, type,
                       name, value);
}

void yk_process_metrics_append(double start_s, yk_strbuf *out)
{
  process_state state;
  struct rlimit limit;
  int n_descriptors = count_descriptors();
  if (read_state(&state)) {
    single(out, "cpu_seconds_total", "counter", "Processor time, user and system.", state.cpu_s);
    single(out, "resident_memory_bytes", "gauge", "Resident memory.",
           (double)state.resident_pages * (double)sysconf(_SC_PAGESIZE));
    single(out, "virtual_memory_bytes", "gauge", "Virtual memory.", (double)state.virtual_bytes);
  }
  if (start_s > 0) single(out, "start_time_seconds", "gauge", "When the process began, in Unix time.", start_s);
  if (n_descriptors >= 0) single(out, "open_fds", "gauge", "Open file descriptors.", n_descriptors);
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
    single(out, "max_fds", "gauge", "File descriptors that the process may open.", (double)limit.rlim_cur);
}
