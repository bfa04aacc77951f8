// Where a statement stands in the kernel's source.
#pragma once

namespace hostsim {

struct Site {
  const char *file;
  int line;
};

}  // namespace hostsim

// Last two parameters of every statement that the model reports, counts or can leave out. A helper
// of the kernel that wraps a statement takes the same two and hands them on.
#define HOSTSIM_SITE int site_line = __builtin_LINE(), const char *site_file = __builtin_FILE()
#define HOSTSIM_HERE \
  ::hostsim::Site { site_file, site_line }
