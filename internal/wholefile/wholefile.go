// Package wholefile replaces small files so that a reader, or a crash, finds the
// old one or the new one as a whole. It imports nothing of this module.
package wholefile

import (
	"errors"
	"os"
)

// Write puts data, which is durable then, in place of the file. Only one may
// write a file at a time.
func Write(path string, data []byte, perm os.FileMode) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
