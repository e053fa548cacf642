#include "cli/study/study_follow.h"

#include "cli/study/study_options.h"

typedef struct study_follower {
  const yk_study_settings *settings;
  yk_study_grid grid;
  const yk_engine_options *engine; /* log and progress */
  const char *(*stops)(void *user);
  void *stops_user;
} study_follower;

/* number: of the configuration. */
static yk_status get_followed(void *user, int64_t number, yk_engine_options *out, yk_err *err)
{
  const study_follower *f = user;
  if (number < 0 || (size_t)number >= f->grid.n_configs)
    return yk_err_set(err, YK_E_COMM, "engine of process 0: expected a configuration from 0 to %zu, found %lld",
                      f->grid.n_configs - 1, (long long)number);
  YK_TRY(yk_study_settings_engine(f->settings, &f->grid.configs[number], out, err));
  out->progress = f->engine->progress;
  out->progress_user = f->engine->progress_user;
  return YK_OK;
}

static const char *follower_stops(void *user)
{
  const study_follower *f = user;
  return f->stops(f->stops_user);
}

yk_status yk_study_follow(void *settings, const yk_engine_options *engine, const char *(*stops)(void *user),
                          void *stops_user, bool *is_stuck, yk_err *err)
{
  study_follower f = {.settings = settings, .engine = engine, .stops = stops, .stops_user = stops_user};
  const yk_group_follower follower = {.get_options = get_followed, .stops = follower_stops, .user = &f};
  char purpose[YK_STUDY_PURPOSE_BYTES];
  yk_process_group *group;
  YK_TRY(yk_study_settings_purpose(f.settings, purpose, err));
  YK_TRY(yk_study_grid_make(&f.settings->sweep, &f.grid, err));
  yk_status status = yk_process_group_join(engine, purpose, &group, err);
  if (status == YK_OK) {
    status = yk_process_group_follow(group, &follower, is_stuck, err);
    if (!*is_stuck) yk_process_group_leave(group, err);
  }
  yk_study_grid_free(&f.grid);
  return status;
}
