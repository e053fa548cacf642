/* Runs a fuzz target over the files of a folder, so that its corpus is an ordinary test without libFuzzer.
 *   usage: fuzz_<name> FOLDER      A folder that cannot be read or is empty is a failure. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"

enum { INPUT_MAX_BYTES = 16 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* In memory of exactly its size, so that AddressSanitizer detects a read past its end. */
static int replay(const char *path)
{
  yk_err err = YK_ERR_INIT;
  char *text;
  size_t n_bytes;
  if (yk_file_read(path, INPUT_MAX_BYTES, &text, &n_bytes, &err) != YK_OK) {
    fprintf(stderr, "%s\n", err.message);
    return 1;
  }
  uint8_t *exact = realloc(text, n_bytes ? n_bytes : 1);
  if (exact) LLVMFuzzerTestOneInput(exact, n_bytes);
  free(exact ? exact : (uint8_t *)text);
  return exact ? 0 : 1;
}

int main(int argc, char **argv)
{
  DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
  if (!folder) {
    fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 1;
  }
  int n_inputs = 0, n_failed = 0;
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (entry->d_name[0] == '.') continue;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
    n_failed += replay(path);
    n_inputs++;
  }
  closedir(folder);
  printf("%d inputs, %d unreadable\n", n_inputs, n_failed);
  return n_inputs == 0 || n_failed > 0;
}
