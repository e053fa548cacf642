#include "server/passed_fields.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void yk_passed_fields_init(yk_passed_fields *fields, const yk_log *log)
{
  memset(fields, 0, sizeof *fields);
  fields->log = log;
  pthread_mutex_init(&fields->mutex, NULL);
}

void yk_passed_fields_destroy(yk_passed_fields *fields)
{
  pthread_mutex_destroy(&fields->mutex);
}

/* Remembers the name; returns whether it is new. */
static bool remember(yk_passed_fields *fields, const char *name)
{
  if (fields->n == YK_PASSED_FIELDS) return false;
  for (int i = 0; i < fields->n; i++)
    if (strcmp(fields->names[i], name) == 0) return false;
  memcpy(fields->names[fields->n++], name, strlen(name) + 1);
  return true;
}

void yk_passed_fields_note(void *user, const char *kind, const char *name)
{
  yk_passed_fields *fields = user;
  char cut[YK_PASSED_FIELD_BYTES];
  snprintf(cut, sizeof cut, "%s", name);
  pthread_mutex_lock(&fields->mutex);
  bool is_new = remember(fields, cut);
  pthread_mutex_unlock(&fields->mutex);
  if (is_new)
    yk_log_write(fields->log, YK_LOG_WARN, "a request has the %s \"%s\", which is unknown and ignored", kind, cut);
}
