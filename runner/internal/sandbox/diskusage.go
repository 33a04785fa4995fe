package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"syscall"
)

// maxDepth is how deep folders may be nested and still be counted: each level holds a descriptor of ours. What is deeper
// counts as too many files.
const maxDepth = 128

// diskUsage is what a working folder holds. A file with two names counts once.
type diskUsage struct {
	most    int // stop counting entries above it
	bytes   uint64
	entries int
	device  uint64
	seen    map[uint64]bool // inodes
}

func (u diskUsage) above(l Limits) bool { return u.bytes > l.DiskBytes || u.entries > l.DiskFiles }

// isEmpty spares the look at what most runs leave: nothing.
func isEmpty(dir string) bool {
	file, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer file.Close()
	_, err = file.Readdirnames(1)
	return errors.Is(err, io.EOF)
}

func treeUsage(dir string, most int) diskUsage {
	u := diskUsage{most: most, seen: map[uint64]bool{}}
	info, err := os.Lstat(dir)
	if err != nil {
		return u
	}
	u.device = info.Sys().(*syscall.Stat_t).Dev
	u.add(dir, os.OpenRoot, 0)
	return u
}

// add counts one folder and what is below. It goes by descriptors from folder to folder, so that a link never leads out.
func (u *diskUsage) add(name string, open func(string) (*os.Root, error), depth int) {
	if depth > maxDepth {
		u.entries = math.MaxInt
		return
	}
	dir, err := open(name)
	if err != nil {
		return // removed meanwhile
	}
	defer dir.Close()
	file, err := dir.Open(".")
	if err != nil {
		return
	}
	defer file.Close()
	for u.entries <= u.most {
		entries, err := file.ReadDir(256)
		for _, entry := range entries {
			u.addEntry(dir, entry, depth)
		}
		if err != nil {
			return // io.EOF
		}
	}
}

func (u *diskUsage) addEntry(dir *os.Root, entry fs.DirEntry, depth int) {
	info, err := entry.Info()
	if err != nil || u.entries > u.most {
		return
	}
	u.entries++
	u.addInode(info)
	if entry.IsDir() {
		if info.Mode().Perm()&0o500 != 0o500 {
			_ = dir.Chmod(entry.Name(), 0o700) // a script can make a folder that it writes to and nobody can list
		}
		u.add(entry.Name(), dir.OpenRoot, depth+1)
	}
}

func (u *diskUsage) addInode(info fs.FileInfo) {
	stat := info.Sys().(*syscall.Stat_t)
	if u.seen[stat.Ino] || stat.Dev != u.device {
		return
	}
	u.seen[stat.Ino] = true
	u.bytes += uint64(stat.Blocks) * 512 // st_blocks is in units of 512 bytes, whatever the file system
}

// addRemoved adds the files that a process has open and that have no name any more: they hold their space all the same.
func (u *diskUsage) addRemoved(pid int) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // it has ended, or is a program that may not be looked at
	}
	for _, entry := range entries {
		info, err := os.Stat(dir + "/" + entry.Name())
		if err == nil && info.Mode().IsRegular() && info.Sys().(*syscall.Stat_t).Nlink == 0 {
			u.entries++
			u.addInode(info)
		}
	}
}
