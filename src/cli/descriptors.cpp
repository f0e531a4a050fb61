#include "cli/descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>

namespace luminal::cli {

void open_missing_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free number, which is this one: those below are open by now.
    if (::open("/dev/null", O_RDWR) != descriptor) ::_exit(1);
  }
}

}  // namespace luminal::cli
