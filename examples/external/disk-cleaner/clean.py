"""Counts, and when dry_run is false deletes, the plain files below a mounted cache folder. Links are not followed."""
import json
import os
import stat
import sys


def main():
    args = json.load(sys.stdin)
    root = os.path.normpath(args["path"])
    if root != os.readlink("mounts/cache"):
        sys.exit("path must be the mounted cache folder, " + os.readlink("mounts/cache"))
    freed = deleted = 0
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            path = os.path.join(folder, name)
            info = os.lstat(path)
            if not stat.S_ISREG(info.st_mode):
                continue
            if not args.get("dry_run", True):
                os.unlink(path)
            freed += info.st_size
            deleted += 1
    print(json.dumps({"freed_bytes": freed, "files_deleted": deleted}))


main()
