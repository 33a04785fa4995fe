// Package deploy tests the deployment as it is shipped: the archive of scripts/ship, unpacked, loaded and brought up by
// Compose on a real engine. The tests need one, and images that scripts/test-deploy has built; they have the build tag
// deploy, and scripts/test-deploy runs them.
package deploy
